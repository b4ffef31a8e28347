"""Main programs: `MainProgram` runs a program as Python does, or loads it under another name for its definitions."""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

_ATTRIBUTE: Final = "__program__"  # attribute of the main module: its `MainProgram`
#: True while a worker runs a program only to load its functions. Tasks that the program then starts see True as well;
#: other threads see False.
_is_loading: Final = contextvars.ContextVar("_is_loading", default=False)


class MainProgram(NamedTuple):
    """The location of the code of a main program.

    Attributes:
        module: name of the module, if it is run with -m.
        path: path of the file, or of a directory or archive with a `__main__.py`.
        code: text of the program, if it is run with -c.
    """

    module: str = ""
    path: str = ""
    code: str = ""

    @classmethod
    def take_over(cls, arguments: Sequence[str], usage: str) -> MainProgram:
        """Return the program that the rest of a command line names, and set sys.argv and sys.path for it.

        Args:
            arguments: [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...], as for Python.
            usage: message if they name no program.

        Raises:
            SystemExit: the arguments name no program.
        """
        match arguments:
            case ["-m", module, *rest]:
                program, name, directory = cls(module=module), module, os.getcwd()
            case ["-c", code, *rest]:
                program, name, directory = cls(code=code), "-c", ""
            case [path, *rest] if not path.startswith("-"):
                program, name = cls(path=os.path.join(os.getcwd(), path)), path
                directory = program.path if _is_importable(program.path) else os.path.dirname(os.path.realpath(path))
            case _:
                sys.exit(usage)
        sys.argv = [name, *rest]
        sys.path[0] = directory
        return program

    @classmethod
    def current(cls) -> MainProgram | None:
        """Return the main program of this process, None if `load` has not loaded it."""
        return getattr(sys.modules["__main__"], _ATTRIBUTE, None)

    @classmethod
    def of_main(cls) -> MainProgram | None:
        """Return the program that Python runs in this process; None if the program is no module and has no file."""
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None)
        if spec is not None:
            return cls(module=spec.name)
        return None if path is None else cls(path=os.path.abspath(path))

    def run(self) -> None:
        """Run the program in this process as Python does.

        Raises:
            Exception: as `load`.
        """
        code, attributes = self._find()
        if self.module:
            sys.argv[0] = attributes["__file__"]
        _execute(code, "__main__", attributes)

    def load(self, name: str) -> ModuleType:
        """Run the program as the main module of this process. `current` returns it from now on.

        Args:
            name: value of the program's `__name__`. With a name other than "__main__", the program is run only for its
                definitions. While the program runs under such a name, `refuse_while_loading` refuses a call that begins
                a rank, joins or serves a job, or makes an executor.

        Raises:
            ImportError, OSError, SyntaxError: there is no such program.
            Any exception of the program.
        """
        code, attributes = self._find()
        token = _is_loading.set(name != "__main__")
        try:
            return _execute(code, name, {**attributes, _ATTRIBUTE: self})
        finally:
            _is_loading.reset(token)

    def _find(self) -> tuple[CodeType, dict[str, Any]]:
        if self.code:
            loader: Any = importlib.machinery.BuiltinImporter  # as Python has it
            return compile(self.code, "<string>", "exec", dont_inherit=True), {"__loader__": loader}
        if self.module:
            return _code_of(self.module)
        if _is_importable(self.path):
            if sys.path[:1] != [self.path]:
                sys.path.insert(0, self.path)
            return _code_of("__main__")
        with open(self.path, "rb") as file:
            text = file.read()
        code, loader = None, importlib.machinery.SourceFileLoader("__main__", self.path)
        if self.path.endswith(".pyc") or text.startswith(importlib.util.MAGIC_NUMBER):
            loader = importlib.machinery.SourcelessFileLoader("__main__", self.path)
            code = loader.get_code("__main__")
        code = code or compile(text, self.path, "exec", dont_inherit=True)
        return code, {"__file__": self.path, "__cached__": None, "__spec__": None, "__loader__": loader}


def refuse_while_loading(what: str) -> None:
    """Refuse a call that a program makes while a worker loads it.

    Args:
        what: description of the call, for the message.

    Raises:
        RuntimeError: a worker loads the program.
    """
    if _is_loading.get():
        raise RuntimeError(
            f"the program of a worker {what} while the worker loads it: put what only the master does under "
            '`if __name__ == "__main__":`'
        )


def _is_importable(path: str) -> bool:
    """Return True if the path is a directory or an archive. Python runs the `__main__` of such a path."""
    for hook in sys.path_hooks:
        with contextlib.suppress(ImportError):
            hook(path)
            return True
    return False


def _execute(code: CodeType, name: str, attributes: dict[str, Any]) -> ModuleType:
    module = ModuleType("__main__")
    if sys.version_info < (3, 14):
        vars(module)["__annotations__"] = {}
    vars(module).update(attributes, __name__=name, __builtins__=builtins)
    sys.modules["__main__"] = sys.modules[name] = module
    exec(code, vars(module))
    return module


#: code of the function of aiompi that runs the program
RUNS_PROGRAM: Final = _execute.__code__


def _code_of(name: str) -> tuple[CodeType, dict[str, Any]]:
    spec = _find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find_spec(f"{name}.__main__")
    loader: Any = None if spec is None else spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") and spec is not None else None
    if code is None or spec is None:
        raise ImportError(f"no module named {name!r} that can be run")
    attributes = {"__file__": spec.origin, "__cached__": spec.cached, "__package__": spec.parent}
    return code, {**attributes, "__spec__": spec, "__loader__": loader}


def _find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    if name == "__main__":  # `__main__` of a directory or an archive, not of this process
        return importlib.machinery.PathFinder.find_spec(name, sys.path[:1])
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):  # a parent package cannot import something else
            raise
        return None
