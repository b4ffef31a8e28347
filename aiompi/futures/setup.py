"""`Setup`: the calls that a worker makes before its first task of an executor."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aiompi.job.program import MainProgram

#: name of the main program in a worker, so that code guarded by `__name__ == "__main__"` is not run
WORKER_NAME: Final = "__worker__"


@dataclasses.dataclass(slots=True, kw_only=True)
class Setup:
    """The preparation of a worker for an executor.

    Attributes:
        initializer, initargs: a function and its arguments, to be called last; None for no function.
        main: True to load the main program of the master.
        path: directories to append to sys.path.
        wdir: working directory; empty to keep the present one.
        env: environment variables to set.
        globals: variables to set in the main program.
    """

    initializer: Callable[..., object] | None = None
    initargs: tuple[Any, ...] = ()
    main: bool = True
    path: Iterable[str] = ()
    wdir: str = ""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    globals: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def calls(self) -> list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]]:
        """Return the calls that a worker has to make, in order.

        The main program is loaded first, because variables and the initializer may refer to it.
        """
        global _process
        environment = (dict(self.env), self.wdir, [os.path.abspath(path) for path in self.path])
        calls: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = [
            (set_environment, environment, {})
        ]
        program = MainProgram.current() or MainProgram.of_main() if self.main else None
        if program is not None:
            sys.modules.setdefault(WORKER_NAME, sys.modules["__main__"])  # the module name in pickled results
            _process = _process or os.urandom(16)
            calls.append((load_main, (list(sys.path), list(sys.argv), program, _process), {}))
        if self.globals:
            calls.append((set_globals, (dict(self.globals),), {}))
        if self.initializer is not None:
            calls.append((self.initializer, self.initargs, {}))
        return calls


def set_environment(env: Mapping[str, str], wdir: str, path: Iterable[str]) -> None:
    """Set environment variables, the working directory and sys.path of this worker."""
    os.environ.update(env)
    if wdir:
        os.chdir(wdir)
    sys.path.extend(directory for directory in path if directory not in sys.path)


def load_main(path: Iterable[str], arguments: list[str], program: MainProgram, process: bytes) -> None:
    """Load the master's main program, so that messages can refer to the functions of the program by their names.

    Args:
        path, arguments: sys.path and sys.argv of the master.
        program: its main program.
        process: identifies the process of the master.
    """
    if process == _process:
        return
    sys.path.extend(directory for directory in path if directory not in sys.path)
    if MainProgram.current() != program:
        sys.argv = arguments
        program.load(WORKER_NAME)


#: identifies this process as a master: a worker in the same process does not load the main program again
_process = b""


def set_globals(values: Mapping[str, Any]) -> None:
    """Set variables of the main program."""
    vars(sys.modules["__main__"]).update(values)
