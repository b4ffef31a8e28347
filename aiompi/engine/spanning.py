"""Receives on communicators that span IMPI clients.

The form of a message is known only when it is matched. A message from the same client is in native representation. A
message from another client is in external32 (IMPI 0.0, section 1.2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiompi.engine.impi_peer import ImpiMessage
from aiompi.engine.message import Message
from aiompi.engine.receive import Decode
from aiompi.engine.scattered import Scattered, ScatteredReceive
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine
    from aiompi.engine.impi_peer import ImpiPeer
    from aiompi.engine.matching import Matcher
    from aiompi.engine.message import Landing


class Typed(Scattered, Protocol):
    """Memory of a known datatype.

    Attributes:
        contiguous: True if the memory has no gaps.
        view: bytes of the memory, if it is contiguous.
        lies_external: True if the bytes in memory equal the bytes of the message in external32.
        external_nbytes: length in external32 of a message that fills the memory.
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
        """Return its content as a message in external32."""

    def from_external32(self, message: memoryview) -> None:
        """Fill the memory from an external32 message of at most `external_nbytes` bytes, and touch no other memory."""


class _External:
    """Memory of a datatype as the target of a message in external32 (protocol Scattered)."""

    def __init__(self, typed: Typed) -> None:
        self.nbytes = typed.external_nbytes
        self.unpack = typed.from_external32
        self._typed = typed

    def packed(self) -> memoryview:
        return memoryview(bytearray(self._typed.to_external32()))


class SpanningReceive(ScatteredReceive):
    """A receive that takes messages in both forms.

    Args:
        typed: where the message goes; None to take bytes of any length.
        keep: callback that takes back the message of a matched probe when the receive is withdrawn. By default the
            message becomes unexpected again.
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

    def from_other_client(self, peer: ImpiPeer) -> None:
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

    def _give_back(self, message: Message) -> None:
        self.keep(message)

    def _message_again(self, landing: Landing | None) -> Message:
        if self._sender is None:
            return super()._message_again(landing)
        message = ImpiMessage(self._sender, self.matcher, self.source, self.tag, self.length)
        self._rest_on(message, landing)
        return message
