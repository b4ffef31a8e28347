"""Errors in the handling of a peer's frame: the connection to that peer breaks, with the error as its cause."""

from __future__ import annotations

import sys
from typing import Final

from aiompi.errors import RemoteProtocolError

#: packages whose functions handle received frames
_OURS: Final = frozenset({"aiompi"})


def cause_of(error: BaseException) -> str:
    """Return the cause of a broken connection as text, for an error in the handling of a received frame.

    No call of the program could report this error, so the caller only breaks the connection.

    Raises:
        BaseException: the error itself, if a signal handler has raised it. Signal handlers run anywhere, and belong to
            the program.
    """
    try:
        place = _place_in_ours(error)
        if place is None or not isinstance(error, Exception):
            raise error
        if isinstance(error, RemoteProtocolError):
            return str(error)
        return f"what has come from it cannot be handled ({type(error).__name__}: {error}; {place})"
    finally:
        del error  # it refers to this frame


def _place_in_ours(error: BaseException) -> str | None:
    """Return where in this package an error was raised, or None if it passed through code of the program."""
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        package = module.partition(".")[0]
        if package in _OURS:
            place = f"{module}, line {traceback.tb_lineno}"
        elif package not in sys.stdlib_module_names:
            return None
        traceback = traceback.tb_next
    return place
