"""Loads the checks of both faces, which are written for the asyncio face, for the blocking one.

What a check awaits is a call that has waited already, or a request, for which `await` waits: a check never suspends, so
that one step runs it to its end, without an event loop. What the faces call differently has the name of this face.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from aiompi import MPI

CHECKS: Final = Path(__file__).parents[2] / "checks"
#: method of the asyncio face -> of the blocking one
METHODS: Final = {"done": "Get_status", "start": "Start", "startall": "Startall"}
#: class likewise
CLASSES: Final = {"PersistentRequest": "Prequest"}


def waiting(text: str) -> ast.Module:
    """Return a module of checks, such that it waits."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Await):
            where = {"lineno": node.lineno, "col_offset": node.col_offset}
            node.value = ast.Call(ast.Name("_finished", ast.Load(), **where), [node.value], [], **where)
        elif isinstance(node, ast.Attribute):
            node.attr = METHODS.get(node.attr, node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "aiompi":
            node.names = [alias for alias in node.names if alias.name != "MPI"] or node.names
            node.module = "aiompi" if node.names[0].name == "MPI" else "aiompi.MPI"
            for alias in node.names:
                alias.name, alias.asname = CLASSES.get(alias.name, alias.name), alias.name
    return tree


async def _finished(value: Any) -> Any:
    """Return what a call has returned, or the result of its request, if that is a request."""
    if isinstance(value, MPI.Request):
        return value.wait()
    return value if not hasattr(value, "__await__") else await value


async def outcome(request: MPI.Request[Any]) -> MPI.Status:
    status = MPI.Status()
    request.Wait(status)
    return status


async def probed(comm: MPI.Comm, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Status:
    status = MPI.Status()
    comm.probe(source, tag, status)
    return status


def seen(comm: MPI.Comm, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Status | None:
    status = MPI.Status()
    return status if comm.Iprobe(source, tag, status) else None


def load(path: Path, name: str) -> ModuleType:
    """Load a module of checks, such that it waits."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    vars(module).update(MPI=MPI, _finished=_finished)
    exec(compile(waiting(path.read_text("utf-8")), path, "exec"), vars(module))
    return module


sys.path.insert(0, str(CHECKS.parents[1]))
both = load(CHECKS / "__init__.py", "face.checks")
vars(both).update(outcome=outcome, probed=probed, seen=seen)
for path in sorted(CHECKS.glob("[a-z]*.py")):
    load(path, f"face.checks.{path.stem}")


def run(check: Any) -> None:
    """Run a check of both faces in this rank."""
    try:
        both.prepared(check, MPI.COMM_WORLD, MPI.COMM_SELF).send(None)
    except StopIteration:
        return
    raise AssertionError("the check waits for what is no call of the blocking face")
