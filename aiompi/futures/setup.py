"""What a worker does before its first task of an executor."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aiompi.program import Program

#: of the main program in a worker, so that what is guarded by `__name__ == "__main__"` is not run
WORKER_NAME: Final = "__worker__"


@dataclasses.dataclass(slots=True, kw_only=True)
class Setup:
    """Preparations that the program asks for.

    Attributes:
        initializer, initargs: a function to call last, if any.
        main: whether to load the main program of the master.
        path: directories for the end of sys.path.
        wdir: working directory; empty for none.
        env: environment variables to be set.
        globals: variables of the main program to be set.
    """

    initializer: Callable[..., object] | None = None
    initargs: tuple[Any, ...] = ()
    main: bool = True
    path: Iterable[str] = ()
    wdir: str = ""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    globals: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def calls(self) -> list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]]:
        """The calls that a worker has to make, one after the other.

        The main program is loaded first: what comes later may have been defined by it.
        """
        surroundings = (dict(self.env), self.wdir, [os.path.abspath(path) for path in self.path])
        calls: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = [(surround, surroundings, {})]
        program = Program.current() if self.main else None
        if program is not None:
            sys.modules.setdefault(WORKER_NAME, sys.modules["__main__"])  # of which results are, by name
            calls.append((load_main, (list(sys.path), program), {}))
        if self.globals:
            calls.append((define, (dict(self.globals),), {}))
        if self.initializer is not None:
            calls.append((self.initializer, self.initargs, {}))
        return calls


def surround(env: Mapping[str, str], wdir: str, path: Iterable[str]) -> None:
    """Give this worker the environment that the program asks for."""
    os.environ.update(env)
    if wdir:
        os.chdir(wdir)
    sys.path.extend(directory for directory in path if directory not in sys.path)


def load_main(path: Iterable[str], program: Program) -> None:
    """Have the functions of the master's main program here too, under the names by which they are sent."""
    sys.path.extend(directory for directory in path if directory not in sys.path)
    if Program.current() != program:
        program.load(WORKER_NAME)


def define(values: Mapping[str, Any]) -> None:
    """Set variables of the main program."""
    vars(sys.modules["__main__"]).update(values)
