"""The interfaces between the engine and its surroundings:

`Driver`, by which a rank waits, and `Link`, a path to a peer. Drivers implement `Driver`; transports implement `Link`,
`Sharing` and `Poller`. The engine uses only these interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from aiompi.core.seams import Waiter
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.core import Request
    from aiompi.wire.control import Agreed


class Timer(Protocol):
    """A call that is to be made later."""

    def cancel(self) -> None: ...


class Poller(Protocol):
    """An object that the driver polls for work. Polling is faster than being woken."""

    def poll(self, looks: range) -> bool:
        """Do the pending work; return True if there was any.

        Args:
            looks: most times to look for work. One call with several looks is faster than several calls.
        """

    def stale(self) -> bool:
        """Return True if there was no work since the last call of this method, and no work is in progress."""

    def rest(self) -> bool:
        """Stop being polled, and let the peer wake this rank instead; return False if there is work to do first."""


class StepwiseDecode(Protocol):
    """A `Decode` (see `aiompi.engine.receive`) that can also decode the messages of large objects in steps."""

    def __call__(self, message: bytearray | memoryview, /) -> Any: ...

    def is_large_message(self, message: bytearray | memoryview) -> bool:
        """Return True if the object of a message is to be decoded in steps."""

    def loads_in_steps(self, message: bytearray | memoryview) -> Generator[None, None, Any]:
        """Decode in steps."""


@runtime_checkable
class StepwiseCodec(StepwiseDecode, Protocol):
    """A codec that can also encode and decode large objects in steps."""

    def is_large(self, obj: Any, /) -> bool:
        """Return True if an object is to be encoded in steps."""

    def dumps_in_steps(self, obj: Any, /) -> Generator[None, None, tuple[Payload, int]]:
        """Encode in steps."""


class RecoveryService(Protocol):
    """The interface by which a rank asks the agent of its job about communicators with failed members."""

    @property
    def pending(self) -> bool:
        """True if the rank waits for an answer."""

    def revoke(self, context: int) -> None:
        """Tell all other ranks that a communicator is revoked."""

    def agree(
        self, context: int, number: int, members: list[int], flag: int, proposal: int, acknowledged: list[int]
    ) -> Request[Agreed]:
        """Take part in an agreement; see `aiompi.wire.control.Agree`."""


class Community(Protocol):
    """A communicator, as the engine sees it.

    Attributes:
        context_id: id of the context of its point-to-point messages. The context of its collectives has the next id.
    """

    context_id: int

    def has(self, rank: int) -> bool:
        """Return True if this world rank is a member of the group or of the remote group."""

    def member_failed(self, error: Exception) -> None:
        """Record that a member has failed: collectives cannot complete any more."""

    def ended(self, error: Exception) -> None:
        """Record that communication of this rank has ended: no collective begins any more, not even on COMM_SELF."""

    def revoked(self, error: Exception, source: int) -> None:
        """Record that a rank has revoked the communicator; `source` is the process that reports the revocation."""


class Driver(Protocol):
    """How a rank waits: the interface to an event loop or to a blocking poll.

    Attributes:
        background: True if progress is made while nothing waits.
        sliced: True if a long computation of the rank would delay other callbacks, so that the rank computes in slices.
        single: a hint; True while a call blocks for a single request, so that other events may wait.
        owner: identifier of the only thread that may make calls; NO_THREAD until this thread is known.
    """

    background: bool
    sliced: bool
    single: bool
    owner: int

    def admits(self) -> bool:
        """Return True if this thread may make a call, and False if only `check_thread` can tell."""

    def check_thread(self) -> None:
        """Check that this thread may make a call.

        Raises:
            LocalProtocolError: it may not.
        """

    @property
    def in_own_thread(self) -> bool:
        """True if the rank does all its work in the calling thread."""

    def waiter(self, request: Any) -> Waiter | None:
        """Return the object that code yields in order to wait for a `Request`; None if the request is complete now."""

    def completes_soon(self, request: Request[Any]) -> bool:
        """Poll for a moment until a request completes; return True if it is complete."""

    def tasks(self) -> Iterable[Any] | None:
        """Return the tasks of the event loop; None if this driver has none."""

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        """Call `deadlocked` before each wait, to notice that no rank is left which could end the wait.

        Args:
            deadlocked: returns True if all other ranks have ended; None as long as an object that is no rank, such as
                the agent, can end the waits of this rank.
        """

    def spin(self, seconds: float, *, yields_core: bool = False) -> None:
        """Poll for up to `seconds` before each sleep, as long as recent polls have found work; 0: never.

        Args:
            yields_core: True to yield the core to other processes. The spin ends if another process keeps the core for
                long.
        """

    def start_polling(self, poller: Poller, *, first: bool = False) -> bool:
        """Poll this poller before each sleep, until it rests; return False if polling does not pay.

        If the result is False, the caller must let the poller rest now.

        Args:
            first: True to poll this poller before all others.
        """

    @property
    def now(self) -> Callable[[], float]:
        """The clock: a function that returns seconds since some moment in the past. A property, to save a call."""

    def observe(self, observer: Callable[[Iterable[Any]], AbstractContextManager[None]]) -> None:
        """Enter the context `observer(requests)` while a thread blocks until some of these requests are complete."""

    def reset_after_fork(self) -> None:
        """In the child of a fork: forget all callbacks, and close all descriptors."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back in a later turn."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        """Call back in a later turn, or never if the rank has ended.

        Finalizers call this, from any thread and in the middle of anything.
        """

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call back after `delay` seconds."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor is readable."""

    def add_doorbell(self, fd: int, deliver: Callable[[], bool], callback: Callable[[], object]) -> None:
        """Call back after each write to an eventfd, or once for several writes.

        Args:
            fd: the eventfd.
            deliver: delivers an arrived message, and returns True if `callback` may wait for the next turn. It is
                called before `callback` if waiting code then continues sooner.
            callback: does all pending work.
        """

    def remove_reader(self, fd: int) -> None:
        """Undo `add_reader` or `add_doorbell`."""

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor is writable."""

    def remove_writer(self, fd: int) -> None: ...


class Failable(Protocol):
    """An operation that can fail."""

    def fail(self, error: BaseException) -> None:
        """End the operation with an error."""


class BufferOwner(Failable, Protocol):
    """An operation whose memory a link reads, until the link has sent the payload or has broken."""

    def sent(self) -> None:
        """Record that the memory is no longer needed."""


class Sharing(Protocol):
    """Memory of this process from which a peer copies payloads, instead of reading them in frames of the link."""

    def exposes(self, payload: Payload, nbytes: int) -> bool:
        """Return True if the peer can copy a message in less time than this rank can send it."""

    def expose(self, header: bytes, payload: Payload) -> bool:
        """Announce a message for the peer to copy; return False, and send nothing, if that is impossible now."""


class WritingAhead(Protocol):
    """Memory from which packets to other clients are sent. Data can be written there before the packet may leave."""

    def write(self, data: Payload) -> Payload | None:
        """Write the data of a packet into the memory.

        Returns:
            The written data, for `Link.send` or `erase`; None if there is no room.
        """

    def erase(self, data: Payload) -> None:
        """Free written data that will not be sent."""


class Link(Protocol):
    """A path for frames to one peer. It keeps their order."""

    @property
    def sharing(self) -> Sharing | None:
        """The memory that both ranks share, if there is any."""

    @property
    def far(self) -> bool:
        """True if the peer may be on another host, so that answers of the peer take long."""
        return False

    @property
    def idle(self) -> bool:
        """True if all frames that were handed over have left this process."""

    def dispatch(self, header: bytes, payload: Payload) -> bool:
        """Send one whole frame now; return False if no byte of it was sent, so that `send` must be called."""
        return False

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        """Hand over one frame.

        Returns:
            True if the memory of the payload is free when this returns. If the result is False, the link calls
            `owner.sent()`, now or later, or `owner.fail()` when the connection breaks. If the connection has already
            broken, `peer.error` says why.
        """

    def grant(self, nbytes: int) -> bool:
        """Grant the peer more credit, through memory that the peer reads; return False if only a frame can grant it."""
        return False

    def granted(self) -> int:
        """Return the bytes of credit that the peer has granted by `grant` since the last call."""
        return 0

    def look(self) -> None:
        """Handle arrived frames, if they may complete a message that this rank has sent."""
        return

    def lost(self, cause: str) -> None:
        """Close the link and report that the connection broke."""

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        """Copy the unsent part of the owner's memory, so that the owner may use its memory again.

        Args:
            lent: True if the peer may have been told to copy the payload from this memory.
        """
