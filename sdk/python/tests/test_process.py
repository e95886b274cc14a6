"""A program that serves a skill, seen from its host."""

import base64
import os
import pathlib
import queue
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent import futures

import grpc

from valence import identity, proto, wire
from valence.broker import Address

PROGRAM = pathlib.Path(__file__).with_name("skill.py")
ROOT = pathlib.Path(__file__).parents[1]
LARGE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 1 << 17), ("grpc.absolute_max_metadata_size", 1 << 17)]


def start(env, **more):
    basis = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, str(PROGRAM)], env={**basis, **env}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


class Host:
    """Enough of a host: a process, a connection to it, and one server for its host calls."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        own = identity.make()
        lifeline, self.lifeline = os.pipe()
        self.process = start({
            "VALENCE_PLUGIN": "skill.v1", "VALENCE_LIFELINE": str(lifeline), "PLUGIN_PROTOCOL_VERSIONS": "1",
            "PLUGIN_CLIENT_CERT": own.certificate.decode(), "PLUGIN_UNIX_SOCKET_DIR": self.folder.name,
        }, pass_fds=[lifeline])
        os.close(lifeline)
        self.line = self.process.stdout.readline().rstrip("\n").split("|")
        certificate = ssl.DER_cert_to_PEM_cert(base64.b64decode(self.line[5] + "==")).encode()
        credentials = grpc.ssl_channel_credentials(certificate, own.key, own.certificate)
        self.channel = grpc.secure_channel(f"unix:{self.line[3]}", credentials, [*LARGE, ("grpc.ssl_target_name_override", "localhost")])

        self.events = queue.SimpleQueue()
        self.server = grpc.server(futures.ThreadPoolExecutor(64), options=LARGE)
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("skill.v1.Host", {
            "Run": grpc.unary_unary_rpc_method_handler(self.run)})])
        socket = os.path.join(self.folder.name, "host.sock")
        self.server.add_secure_port(f"unix:{socket}", grpc.ssl_server_credentials([(own.key, own.certificate)], certificate, True))
        self.server.start()
        self.told = queue.SimpleQueue()
        self.told.put(proto.marshal(Address(7, "unix", socket)))
        self.stream = self.channel.stream_stream("/plugin.GRPCBroker/StartStream")(iter(self.told.get, None))
        self.stdio = self.channel.unary_stream("/plugin.GRPCStdio/StreamStdio")(b"")

    def run(self, request, context):
        call = dict(context.invocation_metadata())["valence-call"]
        patch = proto.unmarshal(request, wire.RunRequest).patches[0]
        if call == "refused":
            context.abort(grpc.StatusCode.UNKNOWN, "é" * 8000)
        if call == "slow":
            over = threading.Event()
            context.add_callback(over.set)
            self.events.put("asked")
            over.wait()
            self.events.put("over")
        return proto.marshal(wire.RunResponse(logs=[wire.Log(output=f"{call}: {patch}")]))

    def call(self, method, request, call="1", timeout=60):
        meta = [("valence-host", "7"), ("valence-call", call)]
        return self.channel.unary_unary(method).future(request, metadata=meta, timeout=timeout)

    def evaluate(self, prompt, **more):
        return self.call("/skill.v1.Skill/Evaluate", proto.marshal(wire.EvaluateRequest(task=wire.Task(prompt=prompt))), **more)

    def reason(self, prompt, **more):
        return proto.unmarshal(self.evaluate(prompt, **more).result(), wire.Verdict).reason

    def close(self):
        self.told.put(None)
        self.channel.close()
        self.server.stop(None).wait()
        os.close(self.lifeline)
        self.process.communicate()
        self.folder.cleanup()


class Served(unittest.TestCase):
    def setUp(self):
        self.host = Host()
        self.addCleanup(self.host.close)

    def fails(self, code, future):
        with self.assertRaises(grpc.RpcError) as caught:
            future.result()
        self.assertEqual(caught.exception.code(), code)
        return caught.exception.details()

    def test_handshake(self):
        self.assertEqual(self.host.line[:3], ["1", "1", "unix"])
        self.assertEqual(self.host.line[4], "grpc")
        self.assertEqual(os.path.dirname(self.host.line[3]), self.host.folder.name)
        said = self.host.call("/grpc.health.v1.Health/Check", b"\x0a\x06plugin").result()
        self.assertEqual(said, b"\x08\x01")

    def test_describe(self):
        said = proto.unmarshal(self.host.call("/skill.v1.Skill/Describe", b"").result(), wire.Description)
        self.assertEqual(said, wire.Description("wild", "1.0.0", 1, ["evaluate"]))

    def test_strangers_are_refused(self):
        other = identity.make()
        certificate = ssl.DER_cert_to_PEM_cert(base64.b64decode(self.host.line[5] + "==")).encode()
        for credentials in [
            grpc.ssl_channel_credentials(certificate, other.key, other.certificate),
            grpc.ssl_channel_credentials(certificate),
        ]:
            with grpc.secure_channel(f"unix:{self.host.line[3]}", credentials, [("grpc.ssl_target_name_override", "localhost")]) as c:
                self.fails(grpc.StatusCode.UNAVAILABLE, c.unary_unary("/skill.v1.Skill/Describe").future(b"", timeout=60))

    def test_errors(self):
        self.assertEqual(self.fails(grpc.StatusCode.UNKNOWN, self.host.evaluate("error of mine")), "of mine")
        self.assertEqual(self.fails(grpc.StatusCode.UNKNOWN, self.host.evaluate("bug of mine")), "panic: LookupError: of mine")
        self.assertEqual(self.fails(grpc.StatusCode.UNKNOWN, self.host.evaluate("error ")), "an error without a text")
        self.assertEqual(self.fails(grpc.StatusCode.UNKNOWN, self.host.evaluate("error " + "é" * 20_000)), "é" * 8192)
        self.fails(grpc.StatusCode.UNIMPLEMENTED, self.host.call("/skill.v1.Skill/Sing", b""))
        self.assertEqual(self.host.reason("still here"), "still")

    def test_host_calls_carry_the_call(self):
        calls = {str(n): self.host.evaluate(f"ask p{n}", call=str(n)) for n in range(40)}
        for call, future in calls.items():
            self.assertEqual(proto.unmarshal(future.result(), wire.Verdict).reason, f"{call}: p{call}")
        refused = self.fails(grpc.StatusCode.UNKNOWN, self.host.evaluate("ask p", call="refused"))
        self.assertEqual(refused, "é" * 8000)

    def test_host_calls_end_with_their_call(self):
        cancelled = self.host.evaluate("ask p", call="slow", timeout=None)
        self.assertEqual(self.host.events.get(timeout=60), "asked")
        cancelled.cancel()
        self.assertEqual(self.host.events.get(timeout=60), "over")
        late = self.host.evaluate("ask p", call="slow", timeout=1)
        self.assertEqual(self.host.events.get(timeout=60), "asked")
        self.assertEqual(self.host.events.get(timeout=60), "over")
        self.fails(grpc.StatusCode.DEADLINE_EXCEEDED, late)
        self.assertEqual(self.host.reason("ask q"), "1: q")

    def test_many_at_once(self):
        for future in [self.host.evaluate("meet") for _ in range(40)]:
            self.assertEqual(proto.unmarshal(future.result(), wire.Verdict).reason, "meet")

    def test_large_messages(self):
        # "ask " and a patch of 40 MB, and back
        self.assertEqual(len(self.host.reason("ask " + "x" * 40_000_000)), 40_000_003)

    def test_prints_go_to_standard_error(self):
        self.host.reason("print hello")
        self.host.call("/plugin.GRPCController/Shutdown", b"").result()
        out, errors = self.host.process.communicate()
        self.assertEqual((out, errors), ("", "hello\nchild hello\n"))

    def test_shutdown(self):
        hung = self.host.evaluate("hang")
        self.assertEqual(self.host.reason("x"), "x")
        self.host.call("/plugin.GRPCController/Shutdown", b"").result()
        self.assertEqual(self.host.process.wait(), 0)
        self.assertTrue(isinstance(hung.exception(), grpc.RpcError))

    def test_dies_with_the_host(self):
        self.host.evaluate("hang")
        os.close(self.host.lifeline)
        self.host.lifeline = os.open(os.devnull, os.O_RDONLY)
        self.assertEqual(self.host.process.wait(), 1)
        self.assertFalse(os.path.exists(self.host.folder.name))
        os.mkdir(self.host.folder.name)


class Refused(unittest.TestCase):
    def test_refusals(self):
        cookie = {"VALENCE_PLUGIN": "skill.v1"}
        for env, status, want in [
            ({}, 2, "plugin wild 1.0.0 is loaded by valence"),
            ({"VALENCE_PLUGIN": "skill.v2"}, 2, "plugin wild 1.0.0 is loaded by valence"),
            ({**cookie, "PLUGIN_PROTOCOL_VERSIONS": "2,11"}, 1, "the host speaks versions 2,11 of the protocol, this SDK speaks 1"),
            (cookie, 1, "the host gave no certificate in PLUGIN_CLIENT_CERT"),
        ]:
            with self.subTest(want):
                p = start(env)
                out, errors = p.communicate()
                self.assertEqual((p.returncode, out), (status, ""))
                self.assertIn(want, errors)


if __name__ == "__main__":
    unittest.main()
