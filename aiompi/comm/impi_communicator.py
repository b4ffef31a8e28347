"""Communicators with members in several IMPI clients; messages between the clients pass through the hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

from aiompi.comm.communicator import Communicator
from aiompi.comm.conversion import Conversion, Place, prepared
from aiompi.constants import ANY_TAG, PROC_NULL
from aiompi.datatype import memory_to_send, resolve_recv, resolve_send
from aiompi.datatype.buffer.bufspec import check_disjoint
from aiompi.datatype.pack import EXTERNAL32
from aiompi.engine import AwaitableCall, Message, Receive, Scattered
from aiompi.engine.impi_peer import ImpiPeer
from aiompi.engine.receive import Decode
from aiompi.engine.spanning import SpanningReceive
from aiompi.status import Status, check_status
from aiompi.wire.frame import Payload


class ImpiCommunicator(Communicator):
    """A communicator whose receives take messages of this client and of other clients."""

    __slots__ = ()

    def _conversion(self) -> Conversion:
        """Send external32 to receivers in other clients, and the native representation to the others."""

        def external(dest: SupportsIndex) -> bool:
            peer = self.reached(dest)
            return isinstance(peer, ImpiPeer) and peer.external

        def to_send(spec: object, dest: SupportsIndex) -> bytes | memoryview:
            return resolve_send(spec, "buf").to_external32() if external(dest) else memory_to_send(spec)

        def to_exchange(sendspec: object, recvspec: object, dest: SupportsIndex) -> tuple[memoryview, Place]:
            sendbuf, recvbuf = resolve_send(sendspec), resolve_recv(recvspec)
            check_disjoint(sendbuf, recvbuf)
            return sendbuf.to_external32() if external(dest) else sendbuf.packed(), recvbuf

        def to_replace(spec: object, dest: SupportsIndex) -> tuple[memoryview, Place]:
            buffer = resolve_recv(spec, "buf")
            message = buffer.to_external32() if external(dest) else buffer.packed()
            return memoryview(bytes(message)), buffer

        def prepare(spec: object, dest: SupportsIndex) -> Callable[[], tuple[Payload, int]]:
            buffer = resolve_send(spec, "buf")
            return prepared(buffer.to_external32 if external(dest) else buffer.packed)

        return Conversion(to_send, lambda spec: resolve_recv(spec, "buf"), to_exchange, to_replace, prepare, EXTERNAL32)

    def irecv(
        self,
        memory: memoryview | Scattered | None,
        source: SupportsIndex,
        tag: SupportsIndex,
        decode: Decode | None = None,
        status: Status | None = None,
    ) -> Receive:
        source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        receive = self._receive(memory, (source, tag, peer_rank), decode, status)
        receive.describe("recv from", self, source, tag)
        if source == PROC_NULL:
            receive.source = PROC_NULL
            receive.complete()
        else:
            self.engine.receive(receive)
        return receive

    def own_recv(
        self,
        memory: memoryview | Scattered | None,
        source: SupportsIndex,
        tag: SupportsIndex,
        decode: Decode | None = None,
        status: Status | None = None,
    ) -> AwaitableCall[Any]:
        return AwaitableCall(self.irecv(memory, source, tag, decode, status))

    def recv_short(self, spec: object, source: object, tag: object, status: Status | None) -> None:
        """Return None: only `irecv` converts messages of other clients."""
        self.admitted()

    def recv_object(self, decode: Decode, source: Any, tag: Any, status: Status | None) -> Receive:
        self.admitted()
        return self.irecv(None, source, tag, decode, status)

    def own_recv_object(self, codec: Decode, source: Any, tag: Any, status: Status | None) -> AwaitableCall[Any]:
        self.admitted()
        return self.own_recv(None, source, tag, codec, status)

    def irecv_short(self, spec: object, source: object, tag: object, kind: object = None) -> None:
        """Return None: only `irecv` converts messages of other clients."""
        self.admitted()

    def own_recv_short(self, spec: object, source: object, tag: object, status: Status | None) -> None:
        """Return None: only `own_recv` converts messages of other clients."""
        self.admitted()

    def imrecv(
        self,
        message: Message | None,
        memory: memoryview | Scattered | None,
        decode: Decode | None = None,
        status: Status | None = None,
        keep: Callable[[Message], object] = Message.put_back,
    ) -> Receive:
        if message is None:
            return self.irecv(memory, PROC_NULL, ANY_TAG, decode, status)
        envelope = message.source, message.tag, message.peer.rank
        receive = self._receive(memory, envelope, decode, status, keep)
        receive.describe("mrecv from", self, message.source, message.tag)
        self.engine.receive_matched(message, receive)
        return receive

    def _receive(
        self,
        memory: memoryview | Scattered | None,
        envelope: tuple[int, int, int],
        decode: Decode | None,
        status: Status | None,
        keep: Callable[[Message], object] = Message.put_back,
    ) -> SpanningReceive:
        if status is not None:
            check_status(status)
        typed: Any = None if isinstance(memory, memoryview) else memory
        receive = SpanningReceive(self.engine, self.matcher, typed, *envelope, decode, status, keep)
        if isinstance(memory, memoryview):
            receive.memory = memory
        return receive
