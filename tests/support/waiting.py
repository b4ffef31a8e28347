"""Loads modules of coroutines that are written for the asyncio face such that they run with the blocking one.

What such a module awaits is a call that has waited already, or a request, for which `await` waits: a coroutine never
suspends, so that one step runs it to its end, without an event loop. What the faces call differently has the name of
the blocking one, and a call that fills a status returns it, too.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from aiompi import MPI

#: method of the asyncio face -> of the blocking one
METHODS: Final = {"done": "Get_status", "start": "Start", "startall": "Startall"}
#: class likewise
CLASSES: Final = {"PersistentRequest": "Prequest"}
#: methods that return a status in the asyncio face
FILLING: Final = {"Recv", "Sendrecv", "Sendrecv_replace", "Probe", "probe"}


def waiting(text: str) -> ast.Module:
    """Return a module, such that it waits."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Await):
            where = {"lineno": node.lineno, "col_offset": node.col_offset}
            call = node.value
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in FILLING:
                call.args.insert(0, call.func)
                call.func = ast.Name("_filling", ast.Load(), **where)
            node.value = ast.Call(ast.Name("_finished", ast.Load(), **where), [call], [], **where)
        elif isinstance(node, ast.Attribute):
            node.attr = METHODS.get(node.attr, node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "aiompi":
            node.names = [alias for alias in node.names if alias.name != "MPI"] or node.names
            node.module = "aiompi" if node.names[0].name == "MPI" else "aiompi.MPI"
            for alias in node.names:
                alias.name, alias.asname = CLASSES.get(alias.name, alias.name), alias.name
    return tree


async def _finished(value: Any) -> Any:
    """Return what a call has returned, or, if that is a request, its result: the status of a receive into a buffer."""
    if isinstance(value, MPI.Request):
        status = MPI.Status()
        received = value.wait(status)
        return status if received is None and status.source != MPI.ANY_SOURCE else received
    return value if not hasattr(value, "__await__") else await value


def _filling(call: Callable[..., object], *arguments: Any, **named: Any) -> MPI.Status:
    """Make a call, and return the status that it fills."""
    given = [argument for argument in (*arguments, *named.values()) if isinstance(argument, MPI.Status)]
    if given:
        call(*arguments, **named)
        return given[0]
    status = MPI.Status()
    call(*arguments, **named, status=status)
    return status


def load(path: Path, name: str) -> ModuleType:
    """Load a module, such that it waits."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    vars(module).update(MPI=MPI, _finished=_finished, _filling=_filling)
    exec(compile(waiting(path.read_text("utf-8")), path, "exec"), vars(module))
    return module


def run(program: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine of such a module."""
    try:
        program.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for what is no call of the blocking face")
