# Written by aiompi/face/generate from native/collective/objects.py: edit this file.
"""Collectives of the blocking face on Python objects (chapter 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from aiompi.coll import buffers, objects
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.op import SUM, Op
from aiompi.typing import MaybeNone

T = TypeVar("T")


class ObjectCollectives(Handle):
    """The collectives on objects; each returns when it is complete for this rank."""

    __slots__ = ()

    def barrier(self) -> None:
        """Wait until every rank has called it (section 4.3).

        Raises:
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            comm.barrier()
        """
        self._finish(buffers.barrier.begin(self._entered("barrier()")))

    @overload
    def bcast(self, obj: None, root: int = 0) -> Any: ...
    @overload
    def bcast(self, obj: T | None, root: int = 0) -> T: ...
    def bcast(self, obj: object, root: int = 0) -> Any:
        """Send the root's object to every rank (section 4.4).

        Args:
            obj: the object at the root; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            The root's object.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            settings = {"steps": 100} if comm.rank == 0 else None
            settings = comm.bcast(settings, root=0)
        """
        return self._finish(objects.bcast(self._entered("bcast(obj, root)"), process.codec, obj, root))

    def gather(self, sendobj: T, root: int = 0) -> list[T] | MaybeNone:
        """Collect the objects of all ranks at the root (section 4.5).

        Args:
            sendobj: any object that can be pickled.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            The list of the objects in rank order at the root; None elsewhere.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            names = comm.gather(socket.gethostname(), root=0)
            if comm.rank == 0:
                print(names)
        """
        return self._finish(objects.gather(self._entered("gather(sendobj, root)"), process.codec, sendobj, root))

    def allgather(self, sendobj: T) -> list[T]:
        """Collect the objects of all ranks on every rank (section 4.7).

        Args:
            sendobj: any object that can be pickled.

        Returns:
            The list of the objects in rank order.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            names = comm.allgather(socket.gethostname())
        """
        return self._finish(objects.allgather(self._entered("allgather(sendobj)"), process.codec, sendobj))

    def reduce(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM, root: int = 0) -> T | MaybeNone:
        """Combine the objects of all ranks in rank order, at the root (section 4.9).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            The combined object at the root, None elsewhere.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            total = comm.reduce(len(items), root=0)  # None at the other ranks
        """
        return self._finish(
            objects.reduce(self._entered("reduce(sendobj, op, root)"), process.codec, sendobj, op, root)
        )

    def allreduce(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM) -> T:
        """Combine the objects of all ranks in rank order, on every rank (section 4.9.6).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.

        Returns:
            The combined object.

        Raises:
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            total = comm.allreduce(len(items))
            longest = comm.allreduce(name, lambda one, other: max(one, other, key=len))
        """
        result: T = self._finish(objects.allreduce(self._entered("allreduce(sendobj, op)"), process.codec, sendobj, op))
        return result

    def scan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM) -> T:
        """Combine the objects of the ranks up to and including this rank in rank order (section 4.11).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.

        Returns:
            The combined object.

        Raises:
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            end = comm.scan(len(items))  # where the items of the next rank begin
        """
        result: T = self._finish(objects.scan(self._entered("scan(sendobj, op)"), process.codec, sendobj, op))
        return result

    def exscan(self, sendobj: T, op: Op | Callable[[T, T], T] = SUM) -> T | MaybeNone:
        """Combine the objects of the ranks below this rank in rank order (MPI-2).

        Args:
            sendobj: any object that can be pickled.
            op: operation, or a function of two objects; the first comes from lower ranks. The function may change both
                objects, which are copies.

        Returns:
            The combined object; None on rank 0.

        Raises:
            InvalidOpError: the operation is null.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            begin = comm.exscan(len(items)) or 0  # where the items of this rank begin
        """
        return self._finish(objects.exscan(self._entered("exscan(sendobj, op)"), process.codec, sendobj, op))
