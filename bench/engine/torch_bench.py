"""The PyTorch side of the engine benchmark.

    python3 bench/engine/torch_bench.py            one measurement of the default size
    python3 bench/engine/torch_bench.py --serve    a JSON request a line, for `go run ./bench/engine`

The model and the two workloads are those of main.go: a Qwen3-style decoder in eager
float32 on one core; a training step (clipped ratio, AdamW, clipped global norm) and
batched sampling with preallocated keys and values. Where this torch has them, fused
attention and fused AdamW are used, and denormals are flushed: a fair opponent.
"""
import json
import math
import resource
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("PyTorch is not installed: apt-get install python3-torch, or pip install torch")

torch.set_num_threads(1)
torch.set_flush_denormal(True)


def cpu_seconds():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def norm(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Model:
    def __init__(self, q):
        self.q = q
        torch.manual_seed(1)
        d, w, f = q["hidden"], q["heads"] * q["head_dim"], q["intermediate"]
        kv = q["kv_heads"] * q["head_dim"]

        def matrix(o, i):
            return (torch.randn(o, i) / math.sqrt(3 * i)).requires_grad_()

        def ones(n):
            return torch.ones(n, requires_grad=True)

        self.embed = (torch.randn(q["vocab"], d) * 0.02).requires_grad_()
        self.layers = [dict(n1=ones(d), qkv=matrix(w + 2 * kv, d), qn=ones(q["head_dim"]), kn=ones(q["head_dim"]),
                            o=matrix(d, w), n2=ones(d), gu=matrix(2 * f, d), down=matrix(d, f)) for _ in range(q["layers"])]
        self.norm = ones(d)
        h, n = q["head_dim"], 2 * q["length"]
        angle = torch.outer(torch.arange(n).float(), 1 / 10000 ** (torch.arange(0, h, 2).float() / h))
        angle = torch.cat((angle, angle), -1)
        self.cos, self.sin = angle.cos(), angle.sin()
        self.mask = torch.full((n, n), float("-inf")).triu(1)
        params = [self.embed, self.norm] + [p for l in self.layers for p in l.values()]
        self.params = params
        groups = [dict(params=[p for p in params if p.dim() == 2], weight_decay=0.1),
                  dict(params=[p for p in params if p.dim() == 1], weight_decay=0.0)]
        try:
            self.adam = torch.optim.AdamW(groups, lr=1e-5, betas=(0.9, 0.95), fused=True)
        except (TypeError, RuntimeError):
            self.adam = torch.optim.AdamW(groups, lr=1e-5, betas=(0.9, 0.95))

    def heads(self, x, l, pos):
        q, b, t = self.q, x.shape[0], x.shape[1]
        h, n, m = q["head_dim"], q["heads"], q["kv_heads"]
        qh, kh, vh = (x @ l["qkv"].T).view(b, t, n + 2 * m, h).transpose(1, 2).split((n, m, m), 1)
        cos, sin = self.cos[pos:pos + t], self.sin[pos:pos + t]
        return rotate(norm(qh, l["qn"]), cos, sin), rotate(norm(kh, l["kn"]), cos, sin), vh

    def mlp(self, x, l):
        g, u = (norm(x, l["n2"]) @ l["gu"].T).chunk(2, -1)
        return x + (F.silu(g) * u) @ l["down"].T

    def forward(self, ids):
        x = self.embed[ids]
        b, t = ids.shape
        rep = self.q["heads"] // self.q["kv_heads"]
        for l in self.layers:
            q, k, v = self.heads(norm(x, l["n1"]), l, 0)
            if rep > 1:
                k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
            if hasattr(F, "scaled_dot_product_attention"):
                a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.mask[:t, :t]
                a = s.softmax(-1) @ v
            x = x + a.transpose(1, 2).reshape(b, t, -1) @ l["o"].T
            x = self.mlp(x, l)
        return norm(x, self.norm) @ self.embed.T

    def train(self):
        q = self.q
        b, t = q["rows"], q["length"]
        ids = torch.randint(q["vocab"], (b, t + 1))
        adv, old = torch.randn(b, 1), torch.full((b, t), -6.2)
        logp = F.log_softmax(self.forward(ids[:, :-1]), -1).gather(-1, ids[:, 1:, None])[..., 0]
        r = (logp - old).exp()
        loss = -torch.minimum(r * adv, r.clamp(0.8, 1.28) * adv).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return b * t

    @torch.no_grad()
    def sample(self):
        q = self.q
        b, t, m = q["batch"], q["length"], q["kv_heads"]
        rep = q["heads"] // m
        ks = [torch.zeros(b, m, t, q["head_dim"]) for _ in self.layers]
        vs = [torch.zeros(b, m, t, q["head_dim"]) for _ in self.layers]
        ids = torch.arange(b)[:, None] % q["vocab"]
        for i in range(t):
            x = self.embed[ids]
            for l, kc, vc in zip(self.layers, ks, vs):
                qh, k, v = self.heads(norm(x, l["n1"]), l, i)
                kc[:, :, i:i + 1], vc[:, :, i:i + 1] = k, v
                k, v = kc[:, :, :i + 1], vc[:, :, :i + 1]
                qh = qh.reshape(b, m, rep, -1)
                a = (qh @ k.transpose(-1, -2) / math.sqrt(q["head_dim"])).softmax(-1) @ v
                x = x + a.reshape(b, 1, -1) @ l["o"].T
                x = self.mlp(x, l)
            p = F.softmax((norm(x, self.norm) @ self.embed.T)[:, 0], -1)
            ids = torch.multinomial(p, 1)
            p.gather(-1, ids).log()
        return b * t


DEFAULT = dict(work="training", vocab=512, hidden=128, layers=5, heads=4, kv_heads=4, head_dim=32, intermediate=384,
               rows=8, length=256, batch=64)


def measure(models, q):
    key = json.dumps({k: v for k, v in q.items() if k != "work"}, sort_keys=True)
    if key not in models:
        models.clear()
        models[key] = Model(q)
    m = models[key]
    start = cpu_seconds()
    n = m.train() if q["work"] == "training" else m.sample()
    return n / (cpu_seconds() - start)


def main():
    models = {}
    if "--serve" not in sys.argv:
        for work in ("training", "sampling"):
            q = dict(DEFAULT, work=work)
            measure(models, q)
            rates = sorted(measure(models, q) for _ in range(5))
            print(f"torch {torch.__version__} {work}: {rates[2]:.0f} tokens per CPU second")
        return
    print(torch.__version__, flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(models, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
