"""Windows are made by all ranks of a communicator together (MPI-4.1, section 12.2)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgpack

from aiompi import create as communicators
from aiompi.base.arguments import integer
from aiompi.base.unsupported_errors import ERR_DISP, ERR_RMA_SHARED, ERR_SIZE
from aiompi.comm import Communicator
from aiompi.core import form
from aiompi.create.participants import collect
from aiompi.engine import Request
from aiompi.errors import ERR_ARG, InvalidCommError, OtherError, RemoteProtocolError, WindowError
from aiompi.window import locks
from aiompi.window.constants import WIN_FLAVOR_ALLOCATE, WIN_FLAVOR_CREATE, WIN_FLAVOR_DYNAMIC, WIN_FLAVOR_SHARED
from aiompi.window.locks import Lock
from aiompi.window.memory import Machine, Segment
from aiompi.window.server import Server
from aiompi.window.sync import Epochs
from aiompi.window.target import Accessor
from aiompi.window.window import Target, Window

#: makes a window with the communicator of its messages
Plan: TypeAlias = Callable[[Communicator], Coroutine[Any, Any, Window]]

#: sizes of dynamic windows, whose displacements are addresses
_ANY: Final = -1
#: upper bound, itself excluded, of the bytes of a rank's memory and of a displacement
_LIMIT: Final = 2**63


class _Card(NamedTuple):
    """The description of a rank's window that the rank sends to the others.

    Attributes:
        error: why the rank has no window; empty if it has a window.
        size, unit: bytes of the rank's window, and bytes of a displacement.
        boot, namespace: the `Machine` of the rank; ("", 0) if no other process can map the rank's memory.
        pid, fd, nbytes: process and descriptor of the memory, and size of the memory.
        address: address of the program's own memory if other processes may copy that memory; otherwise 0.
        form: form of the core.
    """

    error: str = ""
    size: int = 0
    unit: int = 1
    boot: str = ""
    namespace: int = 0
    pid: int = 0
    fd: int = -1
    nbytes: int = 0
    address: int = 0
    form: str = form


def together(comm: Communicator, operation: str, prepare: Callable[[], Plan]) -> Request[Window]:
    """Make a window. If the arguments are wrong at one rank, the call fails at all ranks.

    Args:
        comm: intracommunicator.
        operation: name of the call.
        prepare: checks the arguments, and returns how the window is made.

    Returns:
        A request of the window. A rank with wrong arguments raises the error of its arguments; all other ranks raise an
        error that names this rank.

    Raises:
        InvalidCommError: `comm` is an intercommunicator, or spans IMPI clients.
    """
    if comm.remote is not None or not comm.native:
        raise InvalidCommError(f"{comm.where(operation)}: it needs a communicator of one group, within one client")
    wrong: Exception | None = None
    try:
        plan = prepare()
    except Exception as error:
        wrong = error

    async def make(inner: Communicator) -> Window:
        for rank, told in enumerate(await _collect(inner, "" if wrong is None else f"{type(wrong).__name__}: {wrong}")):
            if told and wrong is None:
                raise WindowError(f"{comm.where(operation)}: rank {rank} raises {told}", ERR_ARG)
        if wrong is not None:
            raise wrong
        return await plan(inner)

    return comm.run(_with_messages(comm, make))


def allocate(comm: Communicator, size: int, unit: int) -> Plan:
    """Plan a window of new memory, zeros at first (MPI_Win_allocate).

    Args:
        comm: intracommunicator.
        size: bytes of this rank's memory.
        unit: bytes of a displacement.
    """
    _check(comm, size, unit, "Win.Allocate")
    return lambda inner: _make(inner, comm, WIN_FLAVOR_ALLOCATE, unit, size)


def allocate_shared(comm: Communicator, size: int, unit: int, *, contiguous: bool) -> Plan:
    """Plan a window of new memory that all ranks use directly (MPI_Win_allocate_shared).

    Args:
        comm: intracommunicator, all of whose ranks are on one host.
        size, unit: see `allocate`.
        contiguous: True to place the memory of each rank directly after that of the previous rank; all ranks pass the
            same value.
    """
    _check(comm, size, unit, "Win.Allocate_shared")
    return lambda inner: _make_shared(inner, comm, size, unit, contiguous=contiguous)


def create(comm: Communicator, memory: memoryview, unit: int) -> Plan:
    """Plan a window of memory of the program (MPI_Win_create).

    Args:
        comm: intracommunicator.
        memory: bytes that can be written to; empty for a rank without memory.
        unit: see `allocate`.
    """
    _check(comm, memory.nbytes, unit, "Win.Create")
    return lambda inner: _make(inner, comm, WIN_FLAVOR_CREATE, unit, memory)


def create_dynamic(comm: Communicator) -> Plan:
    """Plan a window to which each rank attaches memory later; displacements are addresses (MPI_Win_create_dynamic)."""
    return lambda inner: _make(inner, comm, WIN_FLAVOR_DYNAMIC, 1, _ANY)


def _check(comm: Communicator, size: int, unit: int, operation: str) -> None:
    if integer(size, f"{operation}: size") < 0:
        raise WindowError(f"{comm.where(operation)}: size is {size}: expected 0 or more", ERR_SIZE)
    if not 0 < integer(unit, f"{operation}: disp_unit") < _LIMIT:
        raise WindowError(f"{comm.where(operation)}: disp_unit is {unit}: expected 1 or more, below 2**63", ERR_DISP)


async def _collect(comm: Communicator, entry: Any) -> list[Any]:
    """Return the entries of all ranks.

    Raises:
        RemoteProtocolError: a rank has sent no entry.
    """
    found = await comm.start(lambda channel: collect(channel, msgpack.packb(entry)), "Win")
    try:
        return [msgpack.unpackb(each) for each in found]
    except (ValueError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"a rank describes no window: {error}") from None


async def _cards(comm: Communicator, card: _Card, contents: Sequence[int] | None) -> list[_Card]:
    """Exchange the descriptions of all ranks' windows, and return them.

    Args:
        comm: communicator of the messages of the window.
        card: the description of this rank's window.
        contents: bytes of the new memory of each rank; None if each rank's memory is as long as its window.

    Raises:
        OtherError: a rank has no memory for its window.
        RemoteProtocolError: the message of a rank describes no window.
    """
    cards = []
    for rank, entry in enumerate(await _collect(comm, card)):
        if not isinstance(entry, list) or list(map(type, entry)) != list(map(type, card)):
            raise RemoteProtocolError(f"rank {rank} describes no window")
        cards.append(_Card(*entry))
    for rank, each in enumerate(cards):
        if each.error:
            raise OtherError(f"{comm.where('Win')}: rank {rank} has no memory for its window: {each.error}")
    for rank, each in enumerate(cards):
        made = Segment.size(locks.nbytes(comm.size), each.size if contents is None else contents[rank])
        sized = each.size == _ANY if card.size == _ANY else 0 <= each.size < _LIMIT
        placed = each.address >= 0 and each.address + max(each.size, 0) < 2 * _LIMIT
        if not (sized and placed and 0 < each.unit < _LIMIT and each.nbytes == made):
            raise RemoteProtocolError(f"rank {rank} describes a window that cannot be")
    return cards


def _segment(comm: Communicator, content: int, unit: int, size: int) -> tuple[Segment | None, _Card]:
    """Make the memory of this rank; return the memory (None on failure), and its description for the other ranks."""
    try:
        machine = Machine.here() if comm.size > 1 else None
        segment = Segment.make(locks.nbytes(comm.size), content, shared=machine is not None)
    except (MemoryError, OverflowError, ValueError, OSError) as error:
        return None, _Card(str(error) or "it is exhausted")
    if machine is None:
        return segment, _Card("", size, unit, nbytes=segment.nbytes)
    return segment, _Card("", size, unit, *machine, *segment.card(), segment.nbytes)


def _find(comm: Communicator, card: _Card) -> Segment | None:
    """Map the memory of another rank; None if the rank is on another host, or this process may not open its memory."""
    machine = Machine.here()
    if machine is None or (card.boot, card.namespace) != machine:
        return None
    try:
        return Segment.find(card.pid, card.fd, card.nbytes, locks.nbytes(comm.size))
    except OSError:
        return None


async def _with_messages(comm: Communicator, make: Plan) -> Window:
    """Make a window whose messages use a duplicate of `comm`; a revocation of `comm` revokes the duplicate too."""
    inner = await communicators.dup(comm)
    comm.heirs.append(inner)
    try:
        return await make(inner)
    except BaseException:
        comm.heirs.remove(inner)
        inner.release()
        raise


async def _make(inner: Communicator, parent: Communicator, flavor: int, unit: int, given: int | memoryview) -> Window:
    """Make a window; `given` is memory of the program, or the size of new memory."""
    memory = given if isinstance(given, memoryview) else None
    size = given.nbytes if isinstance(given, memoryview) else given
    content = size if flavor == WIN_FLAVOR_ALLOCATE else 0
    segment, card = _segment(inner, content, unit, size)
    if memory is not None and memory.nbytes and inner.engine.settings.single_copy:
        card = card._replace(address=Accessor(memory).address)
    cards = await _cards(inner, card, None if flavor == WIN_FLAVOR_ALLOCATE else [0] * inner.size)
    assert segment is not None
    found = [segment if rank == inner.rank else None for rank in range(inner.size)]
    if form == "native":
        for rank, each in enumerate(cards):
            if found[rank] is None and each.form == "native":
                found[rank] = _find(inner, each)
    targets = []
    for each, part in zip(cards, found, strict=True):
        lock = None if part is None else Lock(part.front, inner.size)
        direct = part is not None and flavor == WIN_FLAVOR_ALLOCATE
        accessor = Accessor(part.content[: each.size]) if part is not None and direct else None
        targets.append(Target(each.size, each.unit, accessor, lock, 0 if part is None else max(each.address, 0)))
    if flavor == WIN_FLAVOR_ALLOCATE:
        memory = segment.content[:size]
    elif memory is not None:
        targets[inner.rank].accessor = Accessor(memory)
    return await _opened(inner, parent, flavor, targets, memory, segment)


async def _make_shared(inner: Communicator, parent: Communicator, size: int, unit: int, *, contiguous: bool) -> Window:
    sizes = await _collect(inner, size)
    if not all(type(each) is int and each >= 0 for each in sizes):
        raise RemoteProtocolError("a rank has no size for its window")
    contents = [sum(sizes), *[0] * (inner.size - 1)] if contiguous else sizes
    segment, card = _segment(inner, contents[inner.rank], unit, size)
    cards = await _cards(inner, card, contents)
    assert segment is not None
    if [each.size for each in cards] != sizes:
        raise RemoteProtocolError("a rank has described two windows")
    segments: list[Segment] = []
    missing = ""
    for rank, each in enumerate(cards):
        found = segment if rank == inner.rank else _find(inner, each)
        if found is None:
            missing = missing or f"rank {inner.rank} cannot map the memory of rank {rank}"
        else:
            segments.append(found)
    problem = next(filter(None, await _collect(inner, missing)), "")
    if problem:
        raise WindowError(f"{parent.where('Win.Allocate_shared')}: {problem}: are they on one host?", ERR_RMA_SHARED)
    starts = [0, *itertools.accumulate(sizes)]
    targets = []
    for rank, each in enumerate(cards):
        place = (
            segments[0].content[starts[rank] : starts[rank + 1]] if contiguous else segments[rank].content[: each.size]
        )
        lock = Lock(segments[rank].front, inner.size) if form == "native" or rank == inner.rank else None
        targets.append(Target(each.size, each.unit, Accessor(place), lock))
    window = await _opened(inner, parent, WIN_FLAVOR_SHARED, targets, _accessor(targets[inner.rank]).memory, segment)
    window.shared = [_accessor(each).memory for each in targets]
    if form != "native":
        for rank, target in enumerate(targets):
            if rank != inner.rank:
                target.accessor = None
    return window


def _accessor(target: Target) -> Accessor:
    assert target.accessor is not None
    return target.accessor


async def _opened(
    inner: Communicator,
    parent: Communicator,
    flavor: int,
    targets: list[Target],
    memory: memoryview | None,
    segment: Segment,
) -> Window:
    """Return the window once every rank has mapped the memory that it needs, and has started its server."""
    window = Window(inner, parent, flavor, targets, memory)
    window.epochs = Epochs(window)
    window.server = Server(window)
    parent.heirs.append(window)
    window.server.start()
    for rank, target in enumerate(targets):
        if target.address and rank != inner.rank:
            inner.reached(rank)  # the core copies once they are connected
    await window.barrier()
    segment.shown()
    return window


async def free(window: Window) -> None:
    """Free a window once all ranks have called this (MPI_Win_free), or at once if it is revoked or has lost a rank.

    Raises:
        ProcessFailedError, RevokedError: a rank has failed or the window is revoked, so other ranks may not have called
            this. The window is freed all the same.
    """
    try:
        window.check("Free")
        await window.epochs.locks.settled()
        try:
            await window.complete(window.everybody())
        except WindowError:
            await window.barrier()  # the other ranks come
            raise
        await window.barrier()
    finally:
        window.freed = True
        window.withdraw()
        window.server.stop()
        window.comm.release()
        for heir in (window, window.comm):
            window.parent.heirs.remove(heir)
