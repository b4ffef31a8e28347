"""What the engine is given: a way to wait, and ways to its peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.request import Request
    from aiompi.engine.shm_sync import SlotExchange


class Timer(Protocol):
    """A call that is to be made later."""

    def cancel(self) -> None: ...


class Waiter(Protocol):
    """What waiting code yields, such as a future of its event loop."""

    def __iter__(self) -> Iterator[Any]: ...

    def done(self) -> bool:
        """Whether the waiting has ended, by `set_result` or by cancellation."""

    def set_result(self, result: None, /) -> None:
        """Make the waiting code continue."""


class Poller(Protocol):
    """What can be asked whether there is something to do, which is faster than to be woken for it."""

    def poll(self, looks: range) -> bool:
        """Do what there is to do; whether there was anything.

        Args:
            looks: how often to look for it at most; one call for several looks finds it sooner.
        """

    def stale(self) -> bool:
        """Whether there was nothing to do since the last call of this, and nothing is under way."""

    def rest(self) -> bool:
        """Be woken from now on instead of being asked; False when there is something to do first."""


class Driver(Protocol):
    """How a rank waits: the seam to an event loop, or to a blocking poll (floor 5).

    Attributes:
        background: whether progress is made while nothing waits.
        single: a hint that a call blocks for a single request, so that what else comes may wait.
        owner: identifies the thread that alone may make calls; another number while that is to be found out.
    """

    background: bool
    single: bool
    owner: int

    def admit(self) -> None:
        """Refuse a call that this thread may not make.

        Raises:
            LocalProtocolError: the thread may not.
        """

    @property
    def in_own_thread(self) -> bool:
        """Whether the calling thread is the only one in which the rank does anything."""

    def waiter(self, request: Request[Any]) -> Waiter | None:
        """What awaiting code yields in order to wait for a request; None if that is complete now."""

    def set_deadlock_check(self, deadlocked: Callable[[], bool] | None) -> None:
        """Ask this before waiting: whether every other rank has gone, so that none can complete anything any more.

        Args:
            deadlocked: None when what is waited for does not come from other ranks.
        """

    def spin(self, seconds: float, *, yields_core: bool = False) -> None:
        """Before a sleep, ask pollers for so long, if that has paid lately; 0: never.

        Args:
            yields_core: whether to yield the core to other processes; the spin ends if one keeps it for long.
        """

    def start_polling(self, poller: Poller, *, first: bool = False) -> bool:
        """Ask the poller before the next sleeps, until it rests; False when it does not pay and it must rest now.

        Args:
            first: whether to ask it before all others.
        """

    def yield_core_until(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Yield the core until `ready` returns True, for `seconds` at most; return whether it does."""

    @property
    def now(self) -> Callable[[], float]:
        """The clock, without a call around it: seconds since some moment in the past."""

    def observe(self, observer: Callable[[Iterable[Request[Any]]], AbstractContextManager[None]]) -> None:
        """Enter `observer(requests)` while a thread is blocked until some of these are complete."""

    def renew(self) -> None:
        """In the copy of a fork: wait for nothing any more, and let go of what the descriptors lead to."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back in a later turn."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        """The same, from any thread and in the midst of anything, as finalizers run; never if the rank has ended."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call back after `delay` seconds."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor is readable."""

    def add_doorbell(self, fd: int, hand_out: Callable[[], bool], callback: Callable[[], object]) -> None:
        """Call back after each time that an eventfd has been written, or once for several; the driver reads it.

        Args:
            fd: the eventfd.
            hand_out: called first, where that makes somebody continue sooner; whether the callback may wait for the
                next turn.
            callback: does all that there is to do.
        """

    def remove_reader(self, fd: int) -> None:
        """Undo `add_reader` or `add_doorbell`."""

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor is writable."""

    def remove_writer(self, fd: int) -> None: ...


class Failable(Protocol):
    """What can be told that it will not succeed."""

    def fail(self, error: BaseException) -> None:
        """It is over."""


class BufferOwner(Failable, Protocol):
    """An object whose memory a link reads until it has been sent, or will not be."""

    def sent(self) -> None:
        """The memory is no longer needed."""


class WindowBlock(NamedTuple):
    """Memory of this rank that other ranks read.

    Attributes:
        place: where they find it.
        memory: the bytes.
    """

    place: int
    memory: memoryview


class SlotGroup(Protocol):
    """Ranks each of which posts where all the others see it."""

    def post(self, content: bytes | memoryview, note: int, claim: int) -> SlotExchange:
        """Post in the next round; the round before must be complete.

        Args:
            content: at most `room` bytes (see `aiompi.engine.shm_sync`).
            note, claim: numbers beside it.
        """

    def exhibit(self, nbytes: int) -> WindowBlock | None:
        """Memory that all others read once this rank has posted its place; None if there is no room, or not all can.

        Nobody writes into it after `retire`, and it is used again when all have called that.
        """

    def read(self, member: int, place: int, nbytes: int) -> memoryview:
        """What another one exhibits.

        Args:
            member: its position among the others.
            place: that it has posted.

        Raises:
            RemoteProtocolError: it shares no such memory.
        """

    def retire(self) -> None:
        """Read no more of what others exhibit, and write no more of what this rank has."""


class SlotProvider(Protocol):
    """Memory of this rank that others read: for what goes to several of them, what is long, and what they post."""

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        """Whether this process has descriptors and addresses for `assemble`; nothing is opened for it yet."""

    def assemble(self, context: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        """Prepare for rounds of a communicator; None if not all see what the others post, or not yet.

        Args:
            context: id of the communicator.
            peers: all members but this rank.
        """


class Sharing(Protocol):
    """Memory that this rank and a peer share: ways for messages whose payload is not in the frames of the link.

    Each sends a frame that tells of the message, unless that cannot be done now, or would not pay: then nothing has
    been sent, and the message is to go another way.
    """

    def stream(self, header: bytes, payload: Payload, nbytes: int) -> bool:
        """Copy a message to memory of this rank, where the peer reads it meanwhile; whether the frame was sent."""

    def expose(self, header: bytes, payload: Payload, nbytes: int) -> bool:
        """Announce one in any memory of this process, which the peer copies; whether the frame was sent."""

    def assist(self, payload: Payload, nbytes: int, number: int, address: int) -> Callable[[int], bool] | None:
        """Begin to copy the end of a message that was exposed, as the peer has asked for.

        Args:
            nbytes: of the message that are wanted.
            number, address: what the peer has told.

        Returns:
            Copies up to so many bytes, and tells whether there is more to do; None if there is nothing.
        """


class WritingAhead(Protocol):
    """Places from which packets to other clients leave, and where their data can be before they may."""

    def write(self, data: Payload) -> Payload | None:
        """Write the data of a packet to such a place.

        Returns:
            The data there, to be handed to `Link.send` or to `erase`; None if there is no place for them.
        """

    def erase(self, data: Payload) -> None:
        """What was written will not be sent."""


class Link(Protocol):
    """A path for frames to one peer, in order."""

    @property
    def sharing(self) -> Sharing | None:
        """What there is beside it, if both ranks share memory."""

    @property
    def idle(self) -> bool:
        """Whether everything that was handed over has left this process."""

    def dispatch(self, header: bytes, payload: Payload) -> bool:
        """Let one frame leave now, as a whole; False if nothing of it has left, and it is to be sent."""

    def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
        """Hand over one frame.

        Returns:
            True when the memory of the payload is free again at return. Otherwise `owner.sent()` is called, now or
            later, or `owner.fail()` when the connection breaks; when it is broken already, `peer.error` tells.
        """

    def grant(self, nbytes: int) -> bool:
        """Let the peer know, once it wants to, of so many bytes of credit more; False if that takes a frame."""

    def granted(self) -> int:
        """Bytes of credit that the peer has granted so, and that have not been told before."""

    def detach(self, owner: BufferOwner, lent: bool) -> None:
        """Copy what has not left yet of the memory of this owner, so that it may have it back.

        Args:
            lent: whether the peer may have been told to copy it from there.
        """
