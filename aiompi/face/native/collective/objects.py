"""Collectives on Python objects of the asyncio face (chapter 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from aiompi.coll import buffers, objects
from aiompi.engine import AwaitableCall
from aiompi.face.native.handle import Handle
from aiompi.objects import Codec
from aiompi.op import SUM, Op
from aiompi.typing import MaybeNone

T = TypeVar("T")


class ObjectCollectives(Handle):
    """The collectives of a communicator on objects; each starts at once and returns its request."""

    __slots__ = ()

    _codec: Codec

    def barrier(self, *, algorithm: str | None = None) -> AwaitableCall[None]:
        """Wait until every rank has called it (section 4.3).

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
            async with asyncio.timeout(10):
                await world.barrier()
        """
        return AwaitableCall(buffers.barrier.using(algorithm)(self._admitted))

    @overload
    def bcast(self, obj: None, root: int = 0, *, algorithm: str | None = None) -> AwaitableCall[Any]: ...
    @overload
    def bcast(self, obj: T | None, root: int = 0, *, algorithm: str | None = None) -> AwaitableCall[T]: ...
    def bcast(self, obj: object, root: int = 0, *, algorithm: str | None = None) -> AwaitableCall[Any]:
        """Send the root's object to every rank (section 4.4).

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
            settings = await world.bcast(settings, root=0)
        """
        return AwaitableCall(objects.bcast(self._admitted, self._codec, obj, root, algorithm=algorithm))

    @overload
    def scatter(self, sendobj: None, root: int = 0, *, algorithm: str | None = None) -> AwaitableCall[Any]: ...
    @overload
    def scatter(
        self, sendobj: Sequence[T] | None, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[T]: ...
    def scatter(
        self, sendobj: Sequence[Any] | None, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[Any]:
        """Send item i of the root's sequence to rank i (section 4.6).

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
            task = await world.scatter(tasks, root=0)
        """
        return AwaitableCall(objects.scatter(self._admitted, self._codec, sendobj, root, algorithm=algorithm))

    def gather(self, sendobj: T, root: int = 0, *, algorithm: str | None = None) -> AwaitableCall[list[T] | MaybeNone]:
        """Collect the objects of all ranks at the root (section 4.5).

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
            names = await world.gather(socket.gethostname(), root=0)
            if world.rank == 0:
                print(names)
        """
        return AwaitableCall(objects.gather(self._admitted, self._codec, sendobj, root, algorithm=algorithm))

    def allgather(self, sendobj: T, *, algorithm: str | None = None) -> AwaitableCall[list[T]]:
        """Collect the objects of all ranks on every rank (section 4.7).

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
            names = await world.allgather(socket.gethostname())
        """
        return AwaitableCall(objects.allgather(self._admitted, self._codec, sendobj, algorithm=algorithm))

    def alltoall(self, sendobj: Sequence[T], *, algorithm: str | None = None) -> AwaitableCall[list[T]]:
        """Send item r of every rank's sequence to rank r (section 4.8).

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
            letters = await world.alltoall([(world.rank, rank) for rank in range(world.size)])
        """
        return AwaitableCall(objects.alltoall(self._admitted, self._codec, sendobj, algorithm=algorithm))

    def reduce(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[T | MaybeNone]:
        """Combine the objects of all ranks in rank order, at the root (section 4.9).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change
                both objects, which are copies.
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
            total = await world.reduce(len(items), root=0)  # None at the other ranks
        """
        return AwaitableCall(objects.reduce(self._admitted, self._codec, sendobj, op, root, algorithm=algorithm))

    def allreduce(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None
    ) -> AwaitableCall[T]:
        """Combine the objects of all ranks in rank order, on every rank (section 4.9.6).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change
                both objects, which are copies.
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
            total = await world.allreduce(len(items))
            longest = await world.allreduce(name, lambda one, other: max(one, other, key=len))
        """
        return AwaitableCall(objects.allreduce(self._admitted, self._codec, sendobj, op, algorithm=algorithm))

    def scan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None) -> AwaitableCall[T]:
        """Combine the objects of the ranks up to and including this rank in rank order (section 4.11).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change
                both objects, which are copies.
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
            end = await world.scan(len(items))  # where the items of the next rank begin
        """
        return AwaitableCall(objects.scan(self._admitted, self._codec, sendobj, op, algorithm=algorithm))

    def exscan(
        self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, *, algorithm: str | None = None
    ) -> AwaitableCall[T | MaybeNone]:
        """Combine the objects of the ranks below this rank in rank order (MPI-2).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change
                both objects, which are copies.
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
            begin = await world.exscan(len(items)) or 0  # where the items of this rank begin
        """
        return AwaitableCall(objects.exscan(self._admitted, self._codec, sendobj, op, algorithm=algorithm))
