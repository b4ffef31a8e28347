"""Receives on communicators that span IMPI clients: in what form the message is, is known when it has come.

What a rank of the own client sends lies as in the memory of this machine, what comes from another client is in
external32 (IMPI 0.0, section 1.2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiompi.engine.impi_peer import ForeignMessage
from aiompi.engine.matched import Returning
from aiompi.engine.message import Message
from aiompi.engine.receive import Decode
from aiompi.engine.scattered import Scattered, ScatteredReceive
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.impi_peer import ImpiPeer
    from aiompi.engine.match import Matcher
    from aiompi.engine.message import Landing


class Typed(Scattered, Protocol):
    """Memory of which it is known what lies in it.

    Attributes:
        contiguous: whether it has no gaps.
        view: it, if it is contiguous.
        lies_external: whether a message in external32 lies there as it travels.
        external_nbytes: length in external32 of a message that fills it.
    """

    @property
    def contiguous(self) -> bool: ...
    @property
    def view(self) -> memoryview: ...
    @property
    def lies_external(self) -> bool: ...
    @property
    def external_nbytes(self) -> int: ...

    def to_external32(self) -> memoryview:
        """What is in it, as a message in external32."""

    def from_external32(self, message: memoryview) -> None:
        """Fill it with such a message of at most `external_nbytes`; nothing else is touched."""


class _External:
    """Memory as seen by messages in external32 (protocol Scattered)."""

    def __init__(self, typed: Typed) -> None:
        self.nbytes = typed.external_nbytes
        self.unpack = typed.from_external32
        self._typed = typed

    def packed(self) -> memoryview:
        return memoryview(bytearray(self._typed.to_external32()))


class SpanningReceive(Returning, ScatteredReceive):
    """A receive that takes messages in both forms.

    Args:
        typed: where the message goes; None to take one of any length, of bytes.
        keep: gets a message back that a probe had taken, when the receive is withdrawn; by default others get it.
    """

    __slots__ = ("_sender", "_typed", "keep")

    def __init__(
        self,
        engine: Engine,
        matcher: Matcher,
        typed: Typed | None,
        source: int,
        tag: int,
        peer_rank: int,
        decode: Decode | None = None,
        status: Status | None = None,
        keep: Callable[[Message], object] = Message.put_back,
    ) -> None:
        gaps = None if typed is None or typed.contiguous else typed
        super().__init__(engine, matcher, gaps, source, tag, peer_rank, status)
        if typed is not None and gaps is None:
            self.memory = typed.view
        self.decode = decode
        self._typed = typed
        self.keep = keep
        self._sender: ImpiPeer | None = None

    def from_abroad(self, peer: ImpiPeer) -> None:
        self._sender = peer
        if self._typed is not None and peer.external and not self._typed.lies_external:
            self.memory = None
            self._target = _External(self._typed)

    @property
    def status(self) -> Status:
        return Status.of(self.source, self.tag, self.length, self._cancelled, self._is_external)

    @property
    def _is_external(self) -> bool:
        return self._sender is not None and self._sender.external

    def _let_go(self) -> None:
        super()._let_go()
        self._typed = None

    def _message_again(self, landing: Landing | None) -> Message:
        if self._sender is None:
            return super()._message_again(landing)
        message = ForeignMessage(self._sender, self.matcher, self.source, self.tag, self.length)
        self._rest_on(message, landing)
        return message
