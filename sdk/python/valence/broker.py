"""The host's services, whose address the host tells through go-plugin's broker."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Tuple

import grpc

from . import identity, proto
from .skill import Error

PATIENCE = 30.0
"""How long to wait for the host to tell an address, in seconds."""


@dataclass
class Address:
    """Where a server of the host listens, by its number."""

    number: int = proto.uint64(1)
    network: str = proto.text(2)
    address: str = proto.text(3)


class Broker:
    """Connections to the host's servers, one each. Safe for use by many threads."""

    def __init__(self, credentials: grpc.ChannelCredentials, options: List[Tuple[str, Any]]) -> None:
        self._credentials = credentials
        self._options = [*options, ("grpc.ssl_target_name_override", identity.NAME)]
        self._told = threading.Condition()
        self._addresses: Dict[int, Address] = {}
        self._channels: Dict[int, grpc.Channel] = {}

    def listen(self, stream: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serve StartStream: keep what the host tells, and tell nothing, until the host leaves."""
        try:
            for message in stream:
                a = proto.unmarshal(message, Address)
                with self._told:
                    self._addresses[a.number] = a
                    self._told.notify_all()
        except grpc.RpcError:
            pass  # the host is gone
        return iter(())

    def channel(self, number: int) -> grpc.Channel:
        """Give the connection to one server, which may have to be told first."""
        with self._told:
            if number not in self._channels:
                if not self._told.wait_for(lambda: number in self._addresses, PATIENCE):
                    raise Error(f"reach the host: its server {number} is not known after {PATIENCE:.0f} s")
                a = self._addresses[number]
                target = f"unix:{a.address}" if a.network == "unix" else a.address
                self._channels[number] = grpc.secure_channel(target, self._credentials, self._options)
            return self._channels[number]


class Services:
    """Asks the host for what one call may use."""

    def __init__(self, broker: Broker, context: grpc.ServicerContext) -> None:
        told = dict(context.invocation_metadata())
        self._broker = broker
        self._context = context
        self._server: str = told.get("valence-host", "")
        self._metadata = [("valence-call", told.get("valence-call", ""))]

    def __call__(self, method: str, request: bytes) -> bytes:
        """Ask, and wait for as long as the call itself is awaited."""
        if not self._server.isdecimal():
            raise Error("reach the host: the call came without valence-host")
        ask = self._broker.channel(int(self._server)).unary_unary(f"/skill.v1.Host/{method}")
        waiting = ask.future(request, metadata=self._metadata)
        if not self._context.add_callback(waiting.cancel):
            waiting.cancel()
        try:
            answer: bytes = waiting.result()
            return answer
        except grpc.FutureCancelledError:
            raise Error("the call was cancelled") from None
        except grpc.RpcError as e:
            raise Error(e.details() or e.code().name) from None
