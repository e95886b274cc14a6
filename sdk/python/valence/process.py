"""A skill as a process of its own: hashicorp/go-plugin's protocol, on the plugin's side.

docs/abi.md describes it. The host starts the program, reads one line of standard
output, and talks gRPC over a Unix socket, with mutual TLS.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from concurrent import futures
from typing import Any, Callable, Iterator, List, Mapping, NoReturn, Optional, Tuple

import grpc

from . import identity
from .broker import Broker, Services
from .call import METHODS, call
from .skill import Error, Skill
from .wire import MAX_MESSAGE

COOKIE = ("VALENCE_PLUGIN", "skill.v1")
VERSION = 1
MAX_ERROR = 16 << 10
"""How much of an error's text is sent, in bytes."""

THREADS = 256
"""How many calls are served at a time; others wait. Idle threads are not made."""

# An error's text travels as a header, with three bytes for one that is not ASCII.
_LIMITS: List[Tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_metadata_size", 4 * MAX_ERROR),
    ("grpc.absolute_max_metadata_size", 4 * MAX_ERROR),
]


def serve(skill: Skill) -> NoReturn:
    """End a skill's program: answer the host's calls until the host ends.

    A program that no host has started says so and exits with status 2. It must
    not have printed anything to standard output before; what it prints later goes
    to standard error, which the host keeps and shows with a failure.
    """
    env = os.environ
    if env.get(COOKIE[0]) != COOKIE[1]:
        sys.exit(_explain(skill))
    if str(VERSION) not in env.get("PLUGIN_PROTOCOL_VERSIONS", str(VERSION)).split(","):
        _refuse(f"the host speaks versions {env['PLUGIN_PROTOCOL_VERSIONS']} of the protocol, this SDK speaks {VERSION}")
    host = env.get("PLUGIN_CLIENT_CERT", "").encode()
    if not host:
        _refuse("the host gave no certificate in PLUGIN_CLIENT_CERT")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host decides when its plugins end
    _hold_on(env)

    own = identity.make()
    ended = threading.Event()
    socket = os.path.join(env.get("PLUGIN_UNIX_SOCKET_DIR", env.get("TMPDIR", "/tmp")), f"skill-{os.getpid()}.sock")
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=_LIMITS)
    broker = Broker(grpc.ssl_channel_credentials(host, own.key, own.certificate), _LIMITS)
    server.add_generic_rpc_handlers(_handlers(skill, broker, ended))
    server.add_secure_port(f"unix:{socket}", grpc.ssl_server_credentials([(own.key, own.certificate)], host, True))
    server.start()
    _announce(f"1|{VERSION}|unix|{socket}|grpc|{own.encoded()}")
    ended.wait()
    server.stop(None).wait()
    sys.stderr.flush()
    os._exit(0)  # a method that never ends must not hold up the program's end


def _handlers(skill: Skill, broker: Broker, ended: threading.Event) -> Tuple[grpc.GenericRpcHandler, ...]:
    def skilled(method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return call(skill, Services(broker, context), method, request)
            except Error as e:
                context.abort(grpc.StatusCode.UNKNOWN, _cut(str(e)))
                raise  # never reached: abort raises

        return answer

    def check(request: bytes, context: grpc.ServicerContext) -> bytes:
        return b"\x08\x01"  # HealthCheckResponse{status: SERVING}

    def shutdown(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(ended.set)  # once the answer is on its way
        return b""

    def mirror(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        left = threading.Event()
        if context.add_callback(left.set):
            left.wait()
        return iter(())

    unary = grpc.unary_unary_rpc_method_handler
    services = {
        "skill.v1.Skill": {m: unary(skilled(m)) for m in METHODS},
        "grpc.health.v1.Health": {"Check": unary(check)},
        "plugin.GRPCBroker": {"StartStream": grpc.stream_stream_rpc_method_handler(broker.listen)},
        "plugin.GRPCController": {"Shutdown": unary(shutdown)},
        "plugin.GRPCStdio": {"StreamStdio": grpc.unary_stream_rpc_method_handler(mirror)},
    }
    return tuple(grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items())


def _cut(text: str) -> str:
    """Bound an error's text, which must be UTF-8 and may not be empty."""
    return text.encode(errors="replace")[:MAX_ERROR].decode(errors="replace") or "an error without a text"


def _hold_on(env: Mapping[str, str]) -> None:
    """Exit when the host has died, which its end of the lifeline shows."""
    number = env.get("VALENCE_LIFELINE", "")
    if not number.isdecimal():
        return
    fd = int(number)
    os.set_inheritable(fd, False)

    def wait() -> None:
        while os.read(fd, 1):
            pass
        folder: Optional[str] = env.get("PLUGIN_UNIX_SOCKET_DIR")
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def _announce(line: str) -> None:
    """Print the handshake; from here on standard output is standard error."""
    sys.stdout.flush()
    os.write(1, line.encode() + b"\n")
    os.dup(1)  # the host's end stays open: its close would look like the program's end
    os.dup2(2, 1)
    sys.stdout = sys.stderr


def _refuse(why: str) -> NoReturn:
    print(f"serve plugin: {why}", file=sys.stderr)
    sys.exit(1)


def _explain(skill: Skill) -> int:
    print(
        f"plugin {skill.name} {skill.version} is loaded by valence and does nothing on its own.\n"
        "Name its folder (with plugin.toml) in the run's TOML, or try it by hand:\n\n"
        "  valence plugin test .",
        file=sys.stderr,
    )
    return 2
