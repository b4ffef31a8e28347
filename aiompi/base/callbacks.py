"""Functions of the program that are called from inside MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from aiompi.errors import MPIError, OtherError

T = TypeVar("T")


def call_back(what: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function of the program from inside MPI, such as a callback of an attribute or a generalized request.

    An exception of the function becomes an MPI error. The traceback of the exception is printed, as in mpi4py, because
    the error surfaces in a call that has nothing to do with the function.

    Args:
        what: name of the callback, for messages.

    Raises:
        aiompi.MPIError: the function raised it.
        OtherError: the function raised another exception.
    """
    try:
        return function(*args, **kwargs)
    except MPIError as error:
        _print(error)
        raise
    except Exception as error:
        _print(error)
        raise OtherError(f"{what} failed: {type(error).__name__}: {error}") from error


def _print(error: Exception) -> None:
    import traceback  # takes time, and is seldom needed

    traceback.print_exception(error)
