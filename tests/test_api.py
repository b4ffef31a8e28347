"""The public names of the package, which are found when they are used."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi import MPI, standard
from support.cases import cases


def isolated(code: str) -> str:
    """What code prints in a new process."""
    root = str(Path(aiompi.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {root!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@cases("name", [name for name in dir(aiompi) if not name.startswith("_")])
def test_every_name_resolves(name: str) -> None:
    assert getattr(aiompi, name) is getattr(aiompi, name)


def promised() -> dict[str, list[str]]:
    """Modules from which the package shows names to type checkers -> the names."""
    tree = ast.parse(Path(aiompi.__file__).read_text(encoding="utf8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    found: dict[str, list[str]] = {}
    for node in imports:
        found.setdefault(str(node.module), []).extend(alias.name for alias in node.names)
    return found


@cases(("module", "names"), promised().items())
def test_type_checkers_see_what_there_is(module: str, names: list[str]) -> None:
    """What the package promises to them is what it gives."""
    for name in names:
        assert getattr(aiompi, name) is getattr(importlib.import_module(module), name)


def test_all_lists_every_public_name() -> None:
    """`__all__` is written out for tools that do not run the code."""
    assert sorted(aiompi.__all__) == sorted(name for names in promised().values() for name in names)
    assert len(aiompi.__all__) <= 60
    public = {
        name
        for name in dir(MPI)
        if not name.startswith("_") and name != "annotations" and not isinstance(getattr(MPI, name), types.ModuleType)
    }
    assert sorted(MPI.__all__) == sorted(public)


@pytest.mark.parametrize("module", [aiompi, MPI])
def test_tools_see_every_public_name(module: types.ModuleType) -> None:
    names = set(module.__all__)
    assert names <= set(dir(module))
    words = {*re.findall(r"\w+", pydoc.plaintext.document(module))}
    assert sorted(names - {"MPI"} - words) == []
    namespace: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", namespace)
    assert names <= set(namespace)
    if module is aiompi:
        assert not names & set(vars(builtins)), "a star import would replace builtins"


@cases("name", ["nonsense", "Nonsense", "_Nonsense", "__wrapped__"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'aiompi' has no attribute '{name}'"):
        getattr(aiompi, name)


def test_a_module_that_is_not_imported() -> None:
    """The error says which import is forgotten."""
    code = "import aiompi; aiompi.trace"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "module 'aiompi' has no attribute 'trace'; import aiompi.trace first" in run.stderr


@pytest.mark.parametrize(
    ("statement", "light"),
    [
        ("import aiompi", True),
        ("import aiompi; aiompi.ANY_SOURCE, aiompi.Status, aiompi.TruncationError, aiompi.rc", True),
        ("import aiompi.wire.control, aiompi.impi", True),
        ("import aiompi; aiompi.init, aiompi.join, aiompi.spawn", True),
        ("import aiompi; aiompi.run", False),
    ],
)
def test_large_modules_are_imported_when_they_are_needed(statement: str, light: bool) -> None:
    heavy = "{'asyncio', 'numpy', 'uvloop', 'aiompi.engine'}"
    loaded = isolated(f"{statement}\nprint(*sorted({heavy} & set(sys.modules)))").split()
    assert loaded == ([] if light else ["aiompi.engine", "asyncio"])


@pytest.mark.parametrize("use", ["spawned()", "rank()", "member()", "rank(), member()"])
def test_the_loop_goes_on_while_aiompi_is_loaded(use: str) -> None:
    """What is used after that imports nothing more of it."""
    program = """
import asyncio, sys, threading, aiompi

async def rank():
    async with aiompi.init() as world:
        assert world.size == 1

async def member():
    try:
        await aiompi.join("127.0.0.1:1", bytes(16), settings=aiompi.Settings(connect_timeout=0.01))
    except aiompi.JobAbortedError:
        return
    raise AssertionError

async def spawned():
    children = await aiompi.spawn(1, sys.executable, "-c", "from aiompi.MPI import *; Comm.Get_parent().Disconnect()")
    await children.Disconnect()

async def main():
    turns = 0
    loading = asyncio.gather({})
    while not loading.done():
        turns += 1
        await asyncio.sleep(0.001)
    loaded = {name for name in sys.modules if name.startswith("aiompi.")}
    async with aiompi.init() as world:
        assert await world.allreduce(1) == 1
    later = {name for name in sys.modules if name.startswith("aiompi.")} - loaded
    async with asyncio.timeout(120):
        while threading.active_count() > 1:  # that thread ends
            await asyncio.sleep(0.001)
    print(turns > 5, later)

asyncio.run(main())
"""
    assert isolated(program.replace("{}", use)) == "True set()\n"


@cases(
    "name",
    [
        "run",
        "init",
        "join",
        "local_world",
        "Intracomm",
        "Request",
        "Status",
        "Group",
        "Op",
        "Settings",
        "rc",
        "SUM",
    ],
)
def test_documented(name: str) -> None:
    value: Any = getattr(aiompi, name)
    assert (value.__doc__ or _docstring(value)).strip()


def _docstring(cls: type) -> str:
    """Return the docstring of a class from its source, where a compiled class has left it."""
    source = Path(aiompi.__file__).parents[1].joinpath(*cls.__module__.split(".")).with_suffix(".py")
    found = (node for node in ast.parse(source.read_text("utf8")).body if isinstance(node, ast.ClassDef))
    return next(ast.get_docstring(node) or "" for node in found if node.name == cls.__name__)


def methods() -> list[Any]:
    """The public methods that classes of the blocking face have, but for those that raise NotImplementedError."""
    found: dict[Any, Any] = {}
    kinds = (MPI.Cartcomm, MPI.Graphcomm, MPI.Distgraphcomm, MPI.Intercomm, MPI.Message, MPI.Prequest, MPI.Grequest)
    for kind in kinds:
        for name, function in inspect.getmembers(kind, callable):
            inner = getattr(function, "__func__", function)
            if not name.startswith("_") and not hasattr(inner, "is_absent"):
                found.setdefault(inner, function)
    return list(found.values())


@cases("method", methods())
def test_docstrings_of_the_blocking_face(method: Any) -> None:
    """Arguments, results, errors and the section of the standard, as `help()` shows them."""
    doc = inspect.getdoc(method) or ""
    parts = re.split(r"^(Args|Returns|Raises|Example):\n", doc, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    signature = inspect.signature(method, eval_str=False)
    arguments = [name for name in signature.parameters if name != "self"]
    entries = re.findall(r"^    (\w+(?:, \w+)*): \S", sections.get("Args", ""), re.MULTILINE)
    described = [name for entry in entries for name in entry.split(", ")]
    assert described == arguments
    if re.match(r"P?[Rr]equest|Message|\w*[Cc]omm\b", str(signature.return_annotation)):
        assert sections["Returns"].strip()
    if {"buf", "dest", "source", "tag", "root", "op"} & {*arguments} and not method.__name__.startswith("complete"):
        assert sections["Raises"].strip()
    if method.__qualname__.partition(".")[0] not in ("Opaque", "Reference") and "free" not in method.__name__:
        assert re.search(r"MPI_|MPI-|section", doc)


def test_docstrings_are_those_of_the_native_face() -> None:
    described = inspect.getdoc(MPI.Comm.Igatherv) or ""
    native = inspect.getdoc(aiompi.Comm.Gatherv) or ""
    assert described.startswith("Start a `Gatherv`: the buffers of all ranks, of any lengths, come")
    assert native[native.index("    sendbuf: ") : native.index("    root: ")] in described


def test_get_version_tells_what_is_absent() -> None:
    holders = [MPI, *(value for name, value in vars(MPI).items() if isinstance(value, type) and name[0] != "_")]
    names = [(holder, name) for holder in holders for name in dir(holder) if name[0] != "_"]
    found = {getattr(holder, name).__doc__ for holder, name in names if hasattr(getattr(holder, name), "is_absent")}
    parts = {
        re.split(r"[:(]", told.removeprefix("Raise NotImplementedError: aiompi does not have "))[0] for told in found
    }
    told = " ".join((MPI.Get_version.__doc__ or "").split()).rpartition("raise NotImplementedError: ")[2]
    assert set(told.rstrip(".").split(", ")) == {part.strip(" .") for part in parts}


@pytest.mark.parametrize("chapter", standard.CHAPTERS, ids=lambda chapter: str(chapter.number))
def test_calls_of_each_chapter_that_is_there(chapter: standard.Chapter) -> None:
    for path in chapter.calls.split():
        value: Any = MPI
        for name in path.split("."):
            value = getattr(value, name)
        assert not hasattr(value, "is_absent")


def test_version_and_documents_follow_from_the_table_of_chapters() -> None:
    numbers = [chapter.number for chapter in standard.CHAPTERS]
    assert numbers == [*range(3, 16), 19]
    assert {*map(bool, (chapter.missing for chapter in standard.CHAPTERS if chapter.extent != "in full"))} == {True}
    assert MPI.Get_version() == (MPI.VERSION, MPI.SUBVERSION) == standard.VERSION == (4, 1)
    assert ", MPI 4.1, " in MPI.Get_library_version()
    root = Path(__file__).parents[1]
    assert standard.summary() == "chapters 3 to 13 in full, 14 and 15 in part, 19 not there"
    for name in ("README.md", "CHANGELOG.md"):
        assert f"MPI-4.1: {standard.summary()}" in (root / name).read_text(encoding="utf8")
    assert "\n".join(standard.table()) in (root / "docs/pages/reference/index.md").read_text(encoding="utf8")
    assert "`(4, 1)`" in (root / "docs/pages/howto/mpi4py.md").read_text(encoding="utf8")


def test_attributes_lead_to_no_other_module() -> None:
    """Tools and tests go through all attributes of a module, and of the classes that they find there."""
    modules = [name for name, value in vars(MPI).items() if isinstance(value, types.ModuleType)]
    assert [name for name in modules if not name.startswith("@")] == []  # pytest adds those that begin so

    def through(owner: object, above: tuple[object, ...]) -> None:
        assert owner not in above, "they never come to an end"
        for value in list(vars(owner).values()):
            value = value.__get__(owner) if isinstance(value, classmethod | staticmethod) else value
            if type(value) is type and value.__module__ != "builtins":
                through(value, (*above, owner))

    through(MPI, ())


def test_version() -> None:
    assert aiompi.__version__.count(".") == 2


@pytest.mark.spec("S2.4.1-2", "S2.4.4-1", "S2.4.4-2", "S3.2.4-3")
def test_special_values() -> None:
    """Outside the normal range of their argument, and distinct; there is no wildcard for communicators."""
    specials = [MPI.ANY_SOURCE, MPI.PROC_NULL, MPI.ROOT, MPI.UNDEFINED]
    assert len(set(specials)) == len(specials)
    assert all(value < 0 for value in [*specials, MPI.ANY_TAG])
    assert MPI.TAG_UB >= 32767
    assert not any("ANY_COMM" in name for name in dir(MPI))
    assert not MPI.REQUEST_NULL
    assert MPI.Request() == MPI.REQUEST_NULL
