"""`Receive`: a receive, posted or matched (sections 3.2 and 3.7)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from aiompi.constants import ANY_SOURCE, PROC_NULL
from aiompi.core import PostedReceive, Request
from aiompi.core.allocation import allocate, copied
from aiompi.core.pure.receive import SHORT
from aiompi.engine.message import Landing, Message
from aiompi.engine.slices import Sliced
from aiompi.errors import OtherError, ProcessFailedError, ProcessFailedPendingError, TruncationError

#: makes the result of a receive from the bytes of its message
Decode: TypeAlias = Callable[[bytearray | memoryview], Any]

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.engine import Engine
    from aiompi.engine.impi_peer import ImpiPeer
    from aiompi.engine.matching import Matcher
    from aiompi.engine.seams import StepwiseDecode


class Receive(PostedReceive):
    """A receive, posted or matched; for its arguments see `aiompi.core.pure.receive.PostedReceive`."""

    __slots__ = ()

    landing: Landing | None
    matcher: Matcher
    decode: Decode | None

    def _let_go(self) -> None:
        """Release the memory of a receive that has ended. A traceback may refer to the receive for longer."""
        self.memory = None

    def exception(self) -> BaseException | None:
        if self._done and self.decode is not None and self.data is not None:
            with contextlib.suppress(Exception):
                self.result()
        error = super().exception()
        if error is not None and type(error) is not ProcessFailedPendingError:
            self._let_go()
        return error

    def from_other_client(self, peer: ImpiPeer) -> None:
        """Record that the matched message comes from another IMPI client; this receive takes the bytes unchanged."""

    def begin(self, peer: Endpoint, source: int, tag: int, length: int, wanted: int, eager: int = 0) -> Landing:
        """Match a message of which `wanted` bytes are still to arrive."""
        self.source = source
        self.tag = tag
        self.length = length
        memory = allocate(wanted) if self.memory is None else self.memory
        return Landing(peer, self, memory, wanted, eager)

    def wanted(self, length: int) -> int:
        """Return how many bytes of a message of `length` are asked for."""
        return length if self.memory is None else min(length, len(self.memory))

    def landed(self, landing: Landing) -> None:
        """Complete the receive: the message has arrived."""
        self.landing = None
        landing.peer.consumed(landing.eager)
        if self.memory is None:
            self.data = landing.memory
            if self.length > SHORT and self._decodes_in_steps(landing.memory):
                return
        elif self.length > len(self.memory):
            self._truncated(len(self.memory))
            return
        self._finish()

    def _decodes_in_steps(self, data: bytearray | memoryview) -> bool:
        """Begin to decode a large message in steps, before the receive is complete; return False if it is small."""
        is_large = getattr(self.decode, "is_large_message", None)  # `isinstance` takes ten times as long
        if is_large is None or not is_large(data):
            return False
        decode = cast("StepwiseDecode", self.decode)
        self._decoding = Sliced(cast("Engine", self._engine), decode.loads_in_steps(data))
        self._decoding.when_done(self._decoded)
        return True

    def _decoded(self, decoding: Request[Any]) -> None:
        """Complete the receive, but keep its message: the receive may still be withdrawn before `result` is called."""
        error = decoding.exception()
        if error is not None and not isinstance(error, Exception):
            self._decoding = None  # it was interrupted, so that `result` decodes
        self._finish()

    def out_of_memory(self, source: int, tag: int, length: int) -> None:
        """Match a message for which this rank has no memory, and fail."""
        self.source = source
        self.tag = tag
        self.length = length
        self.fail(OtherError(f"no memory for a message of {length} bytes from rank {source} with tag {tag}"))

    def _truncated(self, capacity: int) -> None:
        self.fail(
            TruncationError(
                f"message of {self.length} bytes from rank {self.source} with tag {self.tag} does not fit the "
                f"receive buffer of {capacity} bytes: probe for the length first, or receive into more"
            )
        )

    @property
    def _matched(self) -> bool:
        return self.source != ANY_SOURCE

    def stay(self) -> None:
        """Stay posted when a possible sender fails (ERR_PROC_FAILED_PENDING), as nonblocking receives do."""
        self.stays = cast("Engine", self._engine).survives
        if self.stays and type(self._error) is ProcessFailedError:
            self._error = _pending(self._error)
            cast("Engine", self._engine).post(self)

    def interrupt(self, error: Exception) -> None:
        """Raise an error in the calls that wait for the receive, which stays posted; see `resume`."""
        super().fail(_pending(error))

    def resume(self) -> None:
        """Become incomplete again after `interrupt`: a message has come, or the failure is acknowledged."""
        if type(self._error) is ProcessFailedPendingError:
            self._error = None
            self._done = self._error_seen = False

    def fail(self, error: BaseException) -> None:
        self.resume()
        super().fail(error)

    def cancel(self) -> bool:
        """Cancel the receive if it has not been matched (MPI_Cancel, section 3.8)."""
        if not self.matcher.withdraw(self):
            return False
        self.resume()
        self._cancelled = True
        self._let_go()
        self._finish()
        return True

    def quiescent(self) -> bool:
        return self.landing is None or self.landing.divert(wait=False)

    def withdraw(self) -> None:
        """Undo the receive: its matched message goes to the next receive, or back to the unexpected messages.

        A message of which a part is lost cannot go back. Then the receive has failed; see `lost_message_error`.
        """
        self._undo()
        self._let_go()

    def lost_message_error(self) -> BaseException | None:
        return super().exception() if self._matched and self.unseen_error() is not None else None

    def _undo(self) -> None:
        if Receive.cancel(self) or self._error is not None or self._cancelled or self.source == PROC_NULL:
            return
        if self._decoding is not None:
            self._decoding.withdraw()
            self._decoding = None
        landing = self.landing
        if landing is not None and (landing.length < self.length or landing.filled > len(landing.memory)):
            # The message is already truncated: its rest was never asked for, or was dropped.
            landing.drop()
            self.landing = None
            self._truncated(self.wanted(self.length))
            return
        message = self._message_again(landing)
        self._cancelled = True
        if not self._done:
            self._finish()
        self._give_back(message)

    def _give_back(self, message: Message) -> None:
        """Give the message to the next receive, or to the unexpected messages."""
        self.matcher.put_back(message)

    def _message_again(self, landing: Landing | None) -> Message:
        """Rebuild the matched message as it was before the match, with the bytes that have arrived."""
        engine = cast("Engine", self._engine)
        peer = engine.peer(engine.rank) if landing is None else landing.peer
        message = Message(peer, self.matcher, self.source, self.tag, self.length, 0, rts=False, sync=False)
        self._rest_on(message, landing)
        return message

    def _rest_on(self, message: Message, landing: Landing | None) -> None:
        """Give a new message the order and the content of the matched one; only the order if memory runs out."""
        message.order = self.order
        self.landing = None
        if landing is None:
            with contextlib.suppress(MemoryError):
                message.data = self._kept()
            return
        own = self.memory is None and len(landing.memory) == self.length
        try:
            memory = landing.memory if own else allocate(self.length)
        except MemoryError:
            landing.drop()
        else:
            message.eager, landing.eager = landing.eager, 0
            landing.retarget(message, memory)

    def _kept(self) -> memoryview:
        if self.memory is None:
            assert self.data is not None
            return memoryview(self.data)
        return copied(self.memory[: self.length])


def _pending(error: Exception) -> ProcessFailedPendingError:
    return ProcessFailedPendingError(f"{error}; the receive is still posted: call Ack_failed, and wait for it again")
