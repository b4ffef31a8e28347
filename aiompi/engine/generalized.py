"""Generalized requests: operations of the program that can be awaited like those of MPI (MPI-3.1, section 12.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from aiompi.base.callbacks import call_back
from aiompi.core import Request
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.core.progress import Progress

Function: TypeAlias = Callable[..., object]


class GeneralizedRequest(Request[Any]):
    """An operation that the program completes.

    Args:
        query: function that fills an empty status. The function is called with the status and the arguments, when the
            result is taken and for each use of `status`.
        release: called with the arguments when the request is not needed any more.
        withdraw: function that `cancel` calls with a flag and the arguments. The flag is True if the request is
            complete.
        args, kwargs: the arguments.
    """

    __slots__ = ("_arguments", "_asked", "_query", "_release", "_withdraw")

    def __init__(
        self,
        engine: Progress,
        query: Function | None,
        release: Function | None,
        withdraw: Function | None,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        super().__init__(engine)
        self._query = query
        self._release = release
        self._withdraw = withdraw
        self._arguments = tuple(args), dict(kwargs)
        self._asked = False

    def _call(self, name: str, function: Function | None, *first: Any) -> None:
        if function is not None:
            args, kwargs = self._arguments
            call_back(f"{name} of a generalized request", function, *first, *args, **kwargs)

    @property
    def status(self) -> Status:
        """The empty status, filled by the query function."""
        status, self._asked = Status(), True
        self._call("query_fn", self._query, status)
        return status

    def cancel(self) -> bool:
        """Call the cancel function (MPI_Cancel, section 3.8)."""
        self._call("cancel_fn", self._withdraw, self._done)
        return not self._done

    def result(self) -> Any:
        """Return the object with which the request was completed, and release the request.

        Raises:
            aiompi.MPIError: a function of the program failed.
        """
        value = super().result()
        if not self._asked:
            self.status  # noqa: B018
        self._asked = False
        self._forget()
        return value

    def free(self) -> None:
        """Free the request; the free function is called when it is complete."""
        if self._done:
            self._forget()
        else:
            self.when_done(lambda _: self._forget())

    def _forget(self) -> None:
        release, self._release = self._release, None
        self._call("free_fn", release)
