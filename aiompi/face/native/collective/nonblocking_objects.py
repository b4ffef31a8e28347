# Written by aiompi/face/generate from native/collective/objects.py: edit this file.
"""Nonblocking collectives of the asyncio face on objects (chapter 5 of MPI-3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from aiompi.coll import buffers, objects
from aiompi.engine import Request
from aiompi.face.native.handle import Handle
from aiompi.objects import Codec
from aiompi.op import SUM, Op
from aiompi.typing import MaybeNone

T = TypeVar("T")


class NonblockingObjectCollectives(Handle):
    """The collectives on objects whose requests are kept, to be awaited later."""

    __slots__ = ()

    _codec: Codec

    def ibarrier(self, *, algorithm: str | None = None) -> Request[None]:
        """Start a `barrier`: wait until every rank has called it (section 4.3).

        Args:
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; it is complete when every rank has called this.

        Raises:
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.ibarrier()
            await request
        """
        return buffers.barrier.using(algorithm)(self._admitted)

    @overload
    def ibcast(self, obj: None, root: int = 0, *, algorithm: str | None = None) -> Request[Any]: ...
    @overload
    def ibcast(self, obj: T | None, root: int = 0, *, algorithm: str | None = None) -> Request[T]: ...
    def ibcast(self, obj: object, root: int = 0, *, algorithm: str | None = None) -> Request[Any]:
        """Start a `bcast`: send the root's object to every rank (section 4.4).

        Args:
            obj: the object at the root; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the root's object.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            settings = {"steps": 100} if world.rank == 0 else None
            request = world.ibcast(settings, root=0)
            settings = await request
        """
        return objects.bcast(self._admitted, self._codec, obj, root, algorithm=algorithm)

    @overload
    def iscatter(self, sendobj: None, root: int = 0, *, algorithm: str | None = None) -> Request[Any]: ...
    @overload
    def iscatter(self, sendobj: Sequence[T] | None, root: int = 0, *, algorithm: str | None = None) -> Request[T]: ...
    def iscatter(self, sendobj: Sequence[Any] | None, root: int = 0, *, algorithm: str | None = None) -> Request[Any]:
        """Start a `scatter`: send item i of the root's sequence to rank i (section 4.6).

        Args:
            sendobj: `size` objects at the root; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the item for this rank.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            tasks = [f"task {rank}" for rank in range(world.size)] if world.rank == 0 else None
            request = world.iscatter(tasks, root=0)
            task = await request
        """
        return objects.scatter(self._admitted, self._codec, sendobj, root, algorithm=algorithm)

    def igather(self, sendobj: T, root: int = 0, *, algorithm: str | None = None) -> Request[list[T] | MaybeNone]:
        """Start a `gather`: collect the objects of all ranks at the root (section 4.5).

        Args:
            sendobj: any object that can be pickled.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the list of the objects in rank order at the root; None elsewhere.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.igather(socket.gethostname(), root=0)
            names = await request
        """
        return objects.gather(self._admitted, self._codec, sendobj, root, algorithm=algorithm)

    def iallgather(self, sendobj: T, *, algorithm: str | None = None) -> Request[list[T]]:
        """Start an `allgather`: collect the objects of all ranks on every rank (section 4.7).

        Args:
            sendobj: any object that can be pickled.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the list of the objects in rank order.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.iallgather(socket.gethostname())
            names = await request
        """
        return objects.allgather(self._admitted, self._codec, sendobj, algorithm=algorithm)

    def ialltoall(self, sendobj: Sequence[T], *, algorithm: str | None = None) -> Request[list[T]]:
        """Start an `alltoall`: send item r of every rank's sequence to rank r (section 4.8).

        Args:
            sendobj: `size` objects, one for each rank.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the list of the objects that the ranks sent here, in rank order.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.ialltoall([(world.rank, rank) for rank in range(world.size)])
            letters = await request
        """
        return objects.alltoall(self._admitted, self._codec, sendobj, algorithm=algorithm)

    def ireduce(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, root: int = 0, *, algorithm: str | None = None
    ) -> Request[T | MaybeNone]:
        """Start a `reduce`: combine the objects of all ranks in rank order, at the root (section 4.9).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the combined object at the root, None elsewhere.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.ireduce(len(items), root=0)  # None at the other ranks
            total = await request
        """
        return objects.reduce(self._admitted, self._codec, sendobj, op, root, algorithm=algorithm)

    def iallreduce(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None) -> Request[T]:
        """Start an `allreduce`: combine the objects of all ranks in rank order, on every rank (section 4.9.6).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the combined object.

        Raises:
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.iallreduce(len(items))
            total = await request
        """
        return objects.allreduce(self._admitted, self._codec, sendobj, op, algorithm=algorithm)

    def iscan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None) -> Request[T]:
        """Start a `scan`: combine the objects of the ranks up to and including this rank in rank order (section 4.11).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the combined object.

        Raises:
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.iscan(len(items))  # where the items of the next rank begin
            end = await request
        """
        return objects.scan(self._admitted, self._codec, sendobj, op, algorithm=algorithm)

    def iexscan(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None
    ) -> Request[T | MaybeNone]:
        """Start an `exscan`: combine the objects of the ranks below this rank in rank order (MPI-2).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request whose result is the combined object; None on rank 0.

        Raises:
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.iexscan(len(items))  # where the items of this rank begin
            begin = await request
        """
        return objects.exscan(self._admitted, self._codec, sendobj, op, algorithm=algorithm)
