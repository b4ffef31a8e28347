"""What `help()` says of the public names of both faces: arguments, results, cancellation, examples."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

import aiompi
from aiompi import MPI
from support.generator import generate

#: whose docstrings are in the core, or in classes of Python itself
ELSEWHERE: Final = ("Request", "PersistentRequest", "Prequest", "Grequest", "OutputLine", "Pickle")
#: what can be cancelled, and says what happens then
CANCELLED: Final = [
    *(
        f"World.{name}"
        for name in ("send", "recv", "Send", "Recv", "sendrecv", "probe", "bcast", "gather", "allreduce")
    ),
    *(
        f"World.{name}"
        for name in ("Barrier", "Bcast", "Alltoallv", "Reduce", "Allreduce", "Exscan", "finalize", "Spawn")
    ),
    "Cartcomm.Neighbor_alltoall",
    "Membership.assemble",
    "init",
    "join",
    "spawn",
]


def documented() -> Iterator[Any]:
    """The functions and methods of the classes of both faces, each once."""
    seen = set()
    for face in (aiompi, MPI):
        for name in face.__all__:
            value = getattr(face, name)
            owned = [(name, value)] if inspect.isfunction(value) else []
            if isinstance(value, type) and name not in ELSEWHERE and not issubclass(value, BaseException):
                owned = [(f"{name}.{member}", getattr(value, member)) for member in dir(value) if member[0] != "_"]
            for title, member in owned:
                function = inspect.unwrap(getattr(member, "__func__", member))
                if inspect.isfunction(function) and not hasattr(function, "is_absent") and function not in seen:
                    seen.add(function)
                    yield pytest.param(function, id=f"{face.__name__}.{title}")


@pytest.mark.parametrize("function", [*documented()])
def test_arguments_and_results(function: Any) -> None:
    doc = generate.Doc.parse(function.__doc__ or "")
    assert doc.summary.endswith((".", ":"))
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    described = [name for entry in doc.entries("Args") for name in entry.partition(":")[0].split(", ")]
    assert described == parameters
    result = str(inspect.signature(function).return_annotation)
    if re.search(r"Request|Owned|[Cc]omm\b", result) and result not in ("Request[None]", "Owned[None]"):
        assert "Returns" in doc.sections


@pytest.mark.parametrize("path", CANCELLED)
def test_cancelling(path: str) -> None:
    """With an example that is Python."""
    value: Any = aiompi
    for name in path.split("."):
        value = getattr(value, name)
    sections = generate.Doc.parse(value.__doc__).sections
    assert re.search(r"[Cc]ancel", sections["Cancelling"])
    assert "time limit" in sections["Cancelling"]
    example = ast.parse(sections["Example"])
    assert value.__name__ in ast.unparse(example)
