"""Calls of MPI that aiompi does not have: each name exists, and raises NotImplementedError when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def absent(name: str, part: str) -> Callable[..., Any]:
    """Make a function that raises NotImplementedError.

    Args:
        name: name of the function, for messages.
        part: the part of MPI to which the function belongs.

    Returns:
        The function. Its annotation says that the function returns, so that type checkers check the code after a call.
    """

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name}: aiompi does not have {part}")

    function.__name__ = function.__qualname__ = name
    function.is_absent = True  # type: ignore[attr-defined]
    function.__doc__ = f"Raise NotImplementedError: aiompi does not have {part}."
    return function
