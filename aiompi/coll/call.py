"""Calls of collectives on buffers: checking the arguments, selecting the algorithm, and starting the algorithm."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, TypeVarTuple

from aiompi import core, errors
from aiompi.base.arguments import integer
from aiompi.coll.accumulator import VectorAccumulator
from aiompi.coll.block import Block
from aiompi.coll.external import ExternalAccumulator, TypedBlock
from aiompi.coll.registry import Collective
from aiompi.coll.select import Case, direct_limits, select, select_over_clients, usual
from aiompi.coll.shm_sync import ShmSync, blame_sender
from aiompi.coll.signature import BY_USER, LENGTHS, digest, note_of
from aiompi.comm import Channel, Communicator
from aiompi.constants import PROC_NULL, ROOT
from aiompi.core.allocation import allocate, joined
from aiompi.datatype.buffer.buffer import Buffer, blocks
from aiompi.datatype.buffer.bufspec import IN_PLACE, resolve_recv, resolve_send
from aiompi.datatype.buffer.disjoint import groups_share_memory, shares_memory
from aiompi.datatype.buffer.vector import resolve_typed_recv
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.external32 import is_native
from aiompi.engine import PersistentRequest, Request
from aiompi.errors import (
    InvalidBufferError,
    InvalidCommError,
    InvalidCountError,
    InvalidOpError,
    InvalidRootError,
    InvalidTypeError,
)
from aiompi.op import Op
from aiompi.op.combine import combiner

if TYPE_CHECKING or core.form == "native":
    from aiompi.core._native import SlotGroup, exchange_blocks, know, know_blocks
    from aiompi.op.operation import PREDEFINED

    know(PREDEFINED.values(), IN_PLACE)
    know_blocks(resolve_typed_recv, blame_sender)

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: runs a collective whose arguments have been checked, with the content that its buffers have at the start of the run
Run: TypeAlias = Callable[[Channel], Coroutine[Any, None, None]]


def checked_root(comm: Communicator, root: int, operation: str) -> tuple[int, int | None, bool]:
    """Check the root of a collective.

    Returns:
        (root, rank of the root in its group, True at the root). The root is an int even if the program has passed
        another integer type. The rank is None if this rank has passed PROC_NULL on an intercommunicator.

    Raises:
        InvalidRootError: the root is not a rank of the communicator. On an intercommunicator: the root is neither ROOT,
            nor PROC_NULL, nor a rank of the remote group.
        TypeError: it is no integer.
    """
    if comm.remote is None:
        root = comm.checked_root(root, operation)
        return root, root, comm.rank == root
    root = integer(root, f"{comm.where(operation)}: root")
    if root in (ROOT, PROC_NULL):
        return root, comm.rank if root == ROOT else None, root == ROOT
    if not 0 <= root < len(comm.targets):
        raise InvalidRootError(
            f"{comm.where(operation)}: root {root} is not in 0..{len(comm.targets) - 1}, the ranks of the remote "
            "group; pass ROOT at the root itself, and PROC_NULL in the rest of its group"
        )
    return root, root, False


class Stage:
    """The blocks of one run of a collective; `finish` unpacks received blocks into the buffers that have gaps."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received: list[tuple[Buffer, Block]] = []

    def outgoing(self, buffer: Buffer) -> Block:
        """Return a block with the contents of a buffer."""
        return Block(buffer.packed())

    def copied(self, buffer: Buffer) -> Block:
        """Return a block with a copy of the contents of a buffer."""
        block = self.outgoing(buffer)
        return Block(joined(block.payload, block.nbytes))

    def incoming(self, buffer: Buffer) -> Block:
        """Return a block to receive the contents of a buffer."""
        if buffer.contiguous:
            return Block(buffer.view)
        block = Block(allocate(buffer.nbytes))
        self._received.append((buffer, block))
        return block

    def own(self, block: Block, buffer: Buffer) -> Block:
        """Return a block for a buffer whose contents are already in `block`.

        The result is the buffer's memory if this has no gaps, otherwise `block`.
        """
        if buffer.contiguous:
            return self.incoming(buffer)
        self._received.append((buffer, block))
        return block

    def contribution(self, own: Buffer | None, places: Sequence[Buffer]) -> tuple[Block, list[Block]]:
        """Return the block of this rank's contribution `own`, and the blocks of all ranks.

        The block of the contribution is empty if `own` is None. If `own` is one of `places`, its block in the list is
        the block of the contribution.
        """
        block = Block() if own is None else self.outgoing(own)
        return block, [block if place is own else self.incoming(place) for place in places]

    def finish(self) -> None:
        """Unpack the received blocks."""
        for buffer, block in self._received:
            buffer.unpack(block.data)


class ExternalStage(Stage):
    """The blocks of one run over IMPI clients, which hold external32."""

    __slots__ = ()

    def outgoing(self, buffer: Buffer) -> Block:
        return TypedBlock(buffer.to_external32(), buffer.datatype, buffer.count)

    def incoming(self, buffer: Buffer) -> Block:
        if buffer.contiguous and is_native(buffer.datatype):
            return Block(buffer.view)
        block = TypedBlock(allocate(buffer.external_nbytes), buffer.datatype, buffer.count)
        self._received.append((buffer, block))
        return block

    def finish(self) -> None:
        for buffer, block in self._received:
            buffer.from_external32(block.data)


class Call:
    """The call whose arguments are being checked. Every error message names it.

    Args:
        comm: communicator.
        name: of the collective.
        algorithm: name of the algorithm that the caller wants.
    """

    __slots__ = ("_algorithm", "_lengths", "_operation", "_root", "comm", "name")

    def __init__(self, comm: Communicator, name: str, algorithm: str | None = None) -> None:
        self.comm = comm
        self.name = name
        self._algorithm = algorithm
        self._root: int | None = None
        self._operation: str | None = None
        self._lengths = 0

    @property
    def where(self) -> str:
        """The call, the communicator and the rank, for messages."""
        return self.comm.where(self.name)

    @property
    def note(self) -> int:
        """The number by which ranks compare calls; messages carry it. Valid once the arguments have been checked."""
        return note_of(self.name, self._root, self._operation) | self._lengths << LENGTHS

    def checked(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Call a function, and let its errors name the collective."""
        try:
            return function(*args)
        except (errors.MPIError, TypeError) as error:
            raise self._located(error) from None

    def _located(self, error: errors.MPIError | TypeError) -> errors.MPIError | TypeError:
        return type(error)(f"{self.where}: {error}")

    @property
    def reach(self) -> int:
        """Number of blocks: one for each rank of the communicator, or of the remote group of an intercommunicator."""
        return len(self.comm.targets)

    def root(self, root: int) -> tuple[int, bool]:
        """Check and return the root; True at the root. See `checked_root`."""
        root, self._root, is_root = checked_root(self.comm, root, self.name)
        return root, is_root

    def is_in_place(self, spec: object) -> bool:
        """Return True if the contribution is in the receive buffer; always False on an intercommunicator."""
        return (spec is IN_PLACE or spec is None) and self.comm.remote is None

    def select(
        self, collective: Collective[P], nbytes: int | None, *, commute: bool = True, equal: bool = True
    ) -> Callable[Concatenate[Channel, P], Coroutine[Any, None, None]]:
        """Return the algorithm for this call; see `aiompi.coll.select`."""
        comm, algorithm = self.comm, self._algorithm
        if comm.remote is None:
            case = Case(comm.size, nbytes, commute, equal, comm.shares_memory, comm.spans_hosts)
            if not comm.native and collective.over_clients:
                return self.checked(select_over_clients, collective, case, algorithm)
            if algorithm is None and not comm.engine.settings.coll and comm.engine.recorder is None:
                return usual(collective, case)  # what `select` would do, without the time of calling it
        return self.checked(lambda: select(comm, collective, nbytes, commute=commute, equal=equal, algorithm=algorithm))

    # Blocks and accumulators of one run: in external32 where the communicator spans IMPI clients.

    def stage(self) -> Stage:
        """Return the stage for the blocks of one run."""
        return Stage() if self.comm.native else ExternalStage()

    def accumulator(self, value: Buffer, result: Buffer | None, op: Op) -> VectorAccumulator:
        """Return the accumulator for one run of a reduction; see `VectorAccumulator`."""
        return VectorAccumulator(value, result, op) if self.comm.native else ExternalAccumulator(value, result, op)

    def nbytes(self, count: int, datatype: Datatype) -> int:
        """Return the bytes of a message of `count` items."""
        return count * (datatype.size if self.comm.native else datatype.external.size)

    # Buffers.

    def send(self, spec: object, number: int = 1) -> Buffer:
        """Return a send buffer of `number` blocks; an explicit count is the number of items of one block."""
        # Not with `checked`, which takes longer: each call has one or two buffers.
        try:
            return resolve_send(spec, "sendbuf", number)
        except (errors.MPIError, TypeError) as error:
            self._refuse_in_place(spec, "sendbuf")
            raise self._located(error) from None

    def receive(self, spec: object, number: int = 1) -> Buffer:
        """Return a receive buffer of `number` blocks; an explicit count is the number of items of one block."""
        try:
            return resolve_recv(spec, "recvbuf", number)
        except (errors.MPIError, TypeError) as error:
            self._refuse_in_place(spec, "recvbuf")
            raise self._located(error) from None

    def send_blocks(self, spec: object, number: int | None = None) -> list[Buffer]:
        """Return the equal blocks of a send buffer for all ranks, or for `number` neighbours."""
        return self._cut(resolve_send, spec, "sendbuf", number)

    def receive_blocks(self, spec: object, number: int | None = None) -> list[Buffer]:
        """Return the equal blocks of a receive buffer for all ranks, or for `number` neighbours."""
        return self._cut(resolve_recv, spec, "recvbuf", number)

    def _cut(
        self, resolve: Callable[[object, str, int], Buffer], spec: object, name: str, number: int | None
    ) -> list[Buffer]:
        self._refuse_in_place(spec, name)
        if number is None:
            number = self.reach
        return self.checked(blocks, self.checked(resolve, spec, name, number), number, name) if number else []

    def vector(
        self,
        resolve: Callable[[object, str, int], list[Buffer]],
        spec: object,
        name: str,
        number: int | None = None,
    ) -> list[Buffer]:
        """Return the blocks of all ranks, or of `number` neighbours, of any lengths."""
        self._refuse_in_place(spec, name)
        if number is None:
            number = self.reach
        return self.checked(resolve, spec, name, number) if number else []

    def contribution(self, spec: object, places: Sequence[Buffer] | None) -> Buffer:
        """Return the buffer with this rank's contribution; if `spec` is IN_PLACE or None, this rank's item of `places`.

        Args:
            places: receive buffers for the blocks of all ranks; None if this rank receives no blocks.
        """
        if places is None:
            return self.send(spec)
        own = places[self.comm.rank]
        if self.is_in_place(spec):
            return own
        sendbuf = self.send(spec)
        self.check_blocks(sendbuf.nbytes, own.nbytes)
        self.check_apart([sendbuf], places)
        return sendbuf

    def vectors(self, sendspec: object, recvspec: object) -> tuple[Buffer, Buffer]:
        """Return contribution and result of a reduction; the same buffer twice if `sendspec` is IN_PLACE or None."""
        recvbuf = self.receive(recvspec)
        if self.is_in_place(sendspec):
            return recvbuf, recvbuf
        sendbuf = self.send(sendspec)
        self.check_pair(sendbuf, recvbuf)
        return sendbuf, recvbuf

    # Checks of several arguments together.

    def check_op(self, op: object, vector: Buffer) -> Op:
        """Check that `op` is an operation which is defined for the items of a vector.

        Returns:
            The operation; if the program can free it, another handle of it.
        """
        if not isinstance(op, Op):
            raise InvalidOpError(
                f"{self.where}: {op!r} is no reduction operation; pass one such as SUM, or make one with Op.Create"
            )
        try:
            op.check(vector.datatype)
            if op.is_predefined:
                self._operation = op.name
                return op
            combiner(op, vector.datatype, min(vector.count, 1))
        except errors.MPIError as error:
            raise self._located(error) from None
        self._operation = BY_USER
        return Op(op)

    def check_pair(self, sendbuf: Buffer, recvbuf: Buffer) -> None:
        """Check that a contribution and its result have equal datatypes and counts, and share no memory.

        The three checks are in one function to save time: each call of a reduction needs them.
        """
        if sendbuf.datatype is not recvbuf.datatype:
            self.check_types(sendbuf, recvbuf)
        if sendbuf.count != recvbuf.count:
            self.check_counts(sendbuf, recvbuf.count, f"recvbuf {recvbuf.count}; pass as many in both")
        if shares_memory(sendbuf, recvbuf):
            raise self._shared()

    def check_types(self, sendbuf: Buffer, recvbuf: Buffer) -> None:
        if sendbuf.datatype != recvbuf.datatype:
            raise InvalidTypeError(
                f"{self.where}: sendbuf holds {sendbuf.datatype}, recvbuf {recvbuf.datatype}; a reduction has one "
                "datatype"
            )

    def check_counts(self, sendbuf: Buffer, count: int, otherwise: str) -> None:
        if sendbuf.count != count:
            raise InvalidCountError(f"{self.where}: sendbuf holds {sendbuf.count} items, {otherwise}")

    def check_blocks(self, sent: int, received: int) -> None:
        if sent != received:
            raise InvalidCountError(
                f"{self.where}: sendbuf has {sent} bytes for a rank, recvbuf {received}; they must be equal (an "
                "explicit count is the one of one rank's block)"
            )

    def agree_on(self, lengths: Sequence[int]) -> None:
        """Put a digest of the lengths of all blocks into the note, so that ranks notice if their lengths differ."""
        self._lengths = digest(lengths)

    def check_apart(self, sources: Sequence[Buffer], places: Sequence[Buffer]) -> None:
        """Refuse memory that is read and written by the same call (section 2.2)."""
        if groups_share_memory(sources, places):
            raise self._shared()

    def _shared(self) -> InvalidBufferError:
        return InvalidBufferError(f"{self.where}: sendbuf and recvbuf share memory; pass IN_PLACE or separate buffers")

    def _refuse_in_place(self, spec: object, name: str) -> None:
        if spec is IN_PLACE:
            raise InvalidBufferError(
                f"{self.where}: {name} cannot be IN_PLACE here; see the arguments of the operation"
            )


def _direct(name: str) -> Callable[..., Request[Any] | None] | None:
    """Return the core's function that runs a collective through slots; None if the core has no such function."""
    return getattr(SlotGroup, name, None) if core.form == "native" else None


def _by_messages(name: str) -> Callable[..., Request[Any] | None] | None:
    """Return the core's function that runs a collective by messages in shared memory; None if the core has none."""
    return exchange_blocks if core.form == "native" and name == "alltoallw" else None


class Prepared(Generic[P]):
    """A collective. Calling the object with a communicator and the arguments starts the collective.

    Args:
        check: function with the name of the collective. The function checks the arguments, and returns a function that
            runs the collective with these arguments, any number of times.
        algorithm: name of the algorithm; None if the settings and the tuning data decide.
        between_groups: True if the collective is defined on an intercommunicator.
    """

    def __init__(
        self, check: Callable[Concatenate[Call, P], Run], algorithm: str | None = None, *, between_groups: bool = True
    ) -> None:
        functools.update_wrapper(self, check)
        self.name = check.__name__.capitalize()
        self._check = check
        self._algorithm = algorithm
        self._between_groups = between_groups
        self._direct = _direct(check.__name__) if algorithm is None else None
        self._by_messages = _by_messages(check.__name__) if algorithm is None else None

    def __call__(self, comm: Communicator, /, *args: P.args, **kwargs: P.kwargs) -> Request[None]:
        """Start the collective on a communicator."""
        if kwargs:
            return self._usual(comm, *args, **kwargs)
        request = self.begin(comm, *args)
        request.attend()
        return request

    def begin(self, comm: Communicator, /, *args: Any) -> Request[None]:
        """Start the collective.

        The caller must wait for the request at once, first by `Request.spin` and then by the driver. The core itself
        serves calls with common arguments among ranks that share memory.
        """
        slots = comm.slots
        if slots is not None and self._direct is not None:
            request = self._direct(slots, comm, *args)
            if request is not None:
                return request
        if self._by_messages is not None:
            request = self._by_messages(comm, *args)
            if request is not None:
                return request
        return self._usual(comm, *args)

    def _usual(self, comm: Communicator, /, *args: Any, **kwargs: Any) -> Request[None]:
        run, note = self._prepare(comm, *args, **kwargs)
        channel = comm.channel(self.name, note)
        sync = comm.attached.of(ShmSync) if comm.slots is None else None
        if sync is not None and sync.slots is not None:
            slots = comm.slots = sync.slots
            slots.limit(direct_limits(comm))
        return comm.start_on(channel, run)

    def init(self, comm: Communicator, /, *args: P.args, **kwargs: P.kwargs) -> PersistentRequest[None]:
        """Check and bind the arguments; each start of the request runs the collective once more.

        Collectives are bound in the same order on all ranks, and started in any order (MPI-4, section 6.13). Each bound
        collective has its own channel, on which the messages of a run do not overtake messages of earlier runs.
        """
        run, note = self._prepare(comm, *args, **kwargs)
        channel = comm.bound_channel(self.name, note)
        recorder = comm.engine.recorder
        if recorder is not None:
            recorder.word = 0  # drop the name of the algorithm, because no operation begins yet
        return PersistentRequest(comm.engine, f"{self.name}_init", lambda: comm.start_bound(channel, run), lambda: None)

    def _prepare(self, comm: Communicator, *args: P.args, **kwargs: P.kwargs) -> tuple[Run, int]:
        """Check the arguments. Return the function that runs the collective, and the note of its messages."""
        engine = comm.engine
        if engine.stepping:
            engine.refuse_nested()
        call = Call(comm, self.name, self._algorithm)
        if comm.remote is not None and not self._between_groups:
            raise InvalidCommError(
                f"{call.where}: not defined on an intercommunicator; merge it, or use its local group"
            )
        run = self._check(call, *args, **kwargs)
        return run, call.note

    def using(self, algorithm: str | None) -> Prepared[P]:
        """Return the collective with a fixed algorithm, the same on all ranks; None for the usual choice.

        A call raises InvalidArgumentError if no algorithm has the name, or if the algorithm cannot serve the call.
        """
        if algorithm is None:
            return self
        return Prepared(self._check, algorithm, between_groups=self._between_groups)


def within_group(check: Callable[Concatenate[Call, P], Run]) -> Prepared[P]:
    """Make a collective that is not defined on an intercommunicator (a decorator)."""
    return Prepared(check, between_groups=False)
