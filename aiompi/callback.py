"""Calling functions of the program from inside of MPI: callbacks of attributes and of generalized requests."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from aiompi.errors import Exception as MPIException
from aiompi.errors import OtherError

T = TypeVar("T")


def call_back(what: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """What a function of the program returns.

    What it raises becomes an MPI error; its own traceback is printed, as mpi4py does, because such errors surface in
    calls that have nothing to do with the function.

    Args:
        what: which callback it is, for messages.

    Raises:
        aiompi.Exception: the function has raised this.
        OtherError: it has raised something else.
    """
    try:
        return function(*args, **kwargs)
    except MPIException as error:
        traceback.print_exception(error)
        raise
    except Exception as error:
        traceback.print_exception(error)
        raise OtherError(f"{what} failed: {type(error).__name__}: {error}") from error
