"""FILE_NULL: the file of handles that have none."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from aiompi.base.unsupported_errors import ERR_FILE
from aiompi.comm.errhandler import ERRORS_RETURN, Errhandler
from aiompi.errors import FileError


class NullFile:
    """Stands for no file. It has only an error handler, which every new file gets.

    Args:
        reason: why there is no file.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self.errhandler: Errhandler = ERRORS_RETURN

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise FileError(f"{name}: {self._reason}", ERR_FILE)

    def __repr__(self) -> str:
        return "<File null>"


NULL: Final[Any] = NullFile("the file is MPI_FILE_NULL: open one by File.Open, or keep the one that was closed open")
