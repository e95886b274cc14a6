"""Compare a policy folder's logits under transformers with the embedded engine's.

    go run ./bench/interop/logits -new -kv 2 DIR > dump.json
    python3 bench/interop/logits.py DIR dump.json [RESAVED]

Needs torch and transformers 4.51 or later (the first with Qwen3). Fails when a logit
differs by more than 1e-4 of the largest. With RESAVED the model is also written there
by transformers, for the engine to open: its dump must equal dump.json.
"""
import json
import sys

try:
    import torch
    import transformers
except ImportError as e:
    sys.exit(f"{e}: pip install torch transformers")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    folder, dump = sys.argv[1], json.load(open(sys.argv[2]))
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    model = model.float().eval()
    missing = [k for k in info["missing_keys"] if k != "lm_head.weight"]
    if missing or info["unexpected_keys"]:
        sys.exit(f"missing {missing}, unexpected {info['unexpected_keys']}")
    worst = largest = 0.0
    with torch.no_grad():
        for tokens, want in zip(dump["tokens"], dump["logits"]):
            got = model(torch.tensor([tokens])).logits[0]
            want = torch.tensor(want)
            worst = max(worst, (got - want).abs().max().item())
            largest = max(largest, want.abs().max().item())
    print(f"{type(model).__name__}, transformers {transformers.__version__}, torch {torch.__version__}: "
          f"largest difference {worst:.2e}, largest logit {largest:.2f}")
    if len(sys.argv) == 4:
        model.save_pretrained(sys.argv[3])
    if not worst <= 1e-4 * max(1.0, largest):
        sys.exit(1)


if __name__ == "__main__":
    main()
