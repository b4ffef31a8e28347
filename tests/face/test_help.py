"""What `help()` says of the public names of both faces: arguments, results, cancellation, examples."""

from __future__ import annotations

import ast
import functools
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import aiompi
from aiompi import MPI
from support.cases import cases
from support.generator import generate
from support.messages import assert_same, through

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


def documented() -> Iterator[tuple[str, Any]]:
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
                    yield f"{face.__name__}.{title}", function


@cases(("name", "function"), [*documented()])
def test_arguments_and_results(name: str, function: Any) -> None:
    doc = generate.Doc.parse(function.__doc__ or "")
    assert doc.summary.endswith((".", ":"))
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    described = [name for entry in doc.entries("Args") for name in entry.partition(":")[0].split(", ")]
    assert described == parameters
    result = str(inspect.signature(function).return_annotation)
    if re.search(r"Request|AwaitableCall|[Cc]omm\b", result) and result not in ("Request[None]", "AwaitableCall[None]"):
        assert "Returns" in doc.sections


def test_methods_are_named_after_public_classes() -> None:
    """Also those that come from private ones, which messages such as "Comm.send() got an ..." would name otherwise."""
    for face in (aiompi, MPI):
        public = {value for name in face.__all__ if isinstance(value := getattr(face, name), type)}
        for cls in public:
            names = {base.__name__ for base in cls.__mro__ if base in public} | {"Opaque", "Reference"}
            for name, value in inspect.getmembers(cls, inspect.isfunction):
                if name[0] != "_":
                    assert value.__qualname__.partition(".")[0] in names
                    assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.asyncio
async def test_errors_of_calls_name_public_classes() -> None:
    (world,) = aiompi.local_world(1)
    comm: Any = world
    for call, text in [
        (lambda: comm.send(1, 0, color=2), "Comm.send() got an unexpected keyword argument 'color'"),
        (comm.Spawn, "Intracomm.Spawn() missing 1 required positional argument: 'command'"),
        (comm.shared_dict, "World.shared_dict() missing 1 required positional argument: 'name'"),
        (aiompi.Team().handler, "Team.handler() missing 1 required positional argument: 'function'"),
        (MPI.COMM_SELF.Set_name, "Comm.Set_name() missing 1 required positional argument: 'name'"),
        (MPI.INT.Set_attr, "Datatype.Set_attr() missing 2 required positional arguments: 'keyval' and 'attrval'"),
    ]:
        with pytest.raises(TypeError) as info:
            call()
        assert str(info.value) == text


@functools.cache
def defaults(file: str) -> dict[int, list[tuple[str, str]]]:
    """First line of each function of a file -> its arguments whose defaults are constants, with their names."""
    found = {}
    for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args]
            given = [*zip(reversed(arguments), reversed(node.args.defaults), strict=False)]
            given += [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]  # type: ignore[list-item]
            named = [(argument.arg, ast.unparse(default)) for argument, default in given if default is not None]
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[line] = [(name, default) for name, default in named if default.isupper() and default.isidentifier()]
    return found


def test_defaults_have_the_names_of_constants() -> None:
    """Such as `source=ANY_SOURCE`; handles show their names in their own form, such as `<aiompi.Op MPI_SUM>`."""
    seen = set()
    for _, function in documented():
        parameters = inspect.signature(function).parameters
        for name, constant in defaults(function.__code__.co_filename)[function.__code__.co_firstlineno]:
            if isinstance(parameters[name].default, int):
                assert repr(parameters[name].default) == constant, f"{function.__qualname__}: {name}"
                seen.add(constant)
    assert {"ANY_SOURCE", "ANY_TAG", "LOCK_EXCLUSIVE", "MODE_RDONLY", "SEEK_SET", "THREAD_MULTIPLE"} <= seen
    assert "source: 'int' = ANY_SOURCE, tag: 'int' = ANY_TAG" in str(inspect.signature(aiompi.World.recv))


def test_constants_are_numbers() -> None:
    """In messages, in pickles, and where they are computed with."""
    assert (str(MPI.ANY_TAG), f"{MPI.ANY_SOURCE}") == ("-1", "-1")
    assert type(pickle.loads(pickle.dumps(MPI.ANY_TAG))) is int
    assert repr(MPI.MODE_RDONLY | MPI.MODE_CREATE) == "9"
    assert_same(through([MPI.ANY_TAG, MPI.PROC_NULL]), [-1, -2])


@cases("path", CANCELLED)
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
