"""The layers: which modules may import which, and how long a file may be."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiompi
import aiompi_launcher
from aiompi.core.pure.recorder import RECORD
from aiompi.wire.frame import MAX_ANNOUNCED
from aiompi_launcher.spec import WIDTH
from support.limits import LIMIT
from support.measured import UNMEASURED

PACKAGE = Path(aiompi.__file__).parent
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
ARCHITECTURE = Path(__file__).parents[1] / "docs/pages/explanation/architecture.md"
LAUNCHER = Path(aiompi_launcher.__file__).parent
TESTS = Path(__file__).parent

LAYERS = tomllib.loads((Path(__file__).parents[1] / "docs/layers.toml").read_text("utf-8"))
#: layer -> its units, from the lowest layer to the highest
UNITS_OF: dict[str, list[str]] = {layer["name"]: layer["units"] for layer in LAYERS["layer"]}
#: unit -> its place among all units. Imports point to an earlier place, or stay inside the unit.
PLACES = {unit: place for place, unit in enumerate(unit for units in UNITS_OF.values() for unit in units)}
#: unit -> its layer
LAYER_OF = {unit: layer for layer, units in UNITS_OF.items() for unit in units}
#: pairs of units, of which the first does not import the second although its place is earlier
APART = {(unit, other) for unit, other in LAYERS["apart"]}

#: modules of the standard library and others -> the units below the faces that may import them
WORLDLY: dict[str, set[str]] = {
    "asyncio": {"driver"},
    "uvloop": {"driver"},
    "selectors": set(),
    "select": {"driver", "job"},
    # threads and finalizers share shared memory; a pickler is suspended in a thread
    "threading": {"driver", "transport", "job", "objects", "file"},  # disks are waited for in threads
    "concurrent": set(),
    "multiprocessing": set(),
    "subprocess": {"job"},
    "time": {"driver", "job", "trace.recording", "trace.watched"},
    # wire asks for options of sockets that others have made
    "socket": {"net", "transport", "job", "wire"},
    "ssl": {"net"},
}


LONGEST = 600
#: lines of a function, without its docstring
LONGEST_FUNCTION = 40
#: lines of a class. Classes of the faces may be longer: they are the documentation of the calls of programs.
LONGEST_CLASS = 300


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


def name_of(root: Path, path: Path) -> str:
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(path: Path, name: str, typing: bool = True) -> tuple[str, ...]:
    """Return the modules that a file imports, also inside functions. Names that it takes from a package are listed too.

    Args:
        typing: whether to include imports for type checkers.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    nodes = nodes_of(path)
    apart = set() if typing else {inner for node in nodes if is_typing(node) for inner in ast.walk(node)}
    return tuple(module for node in nodes if node not in apart for module in imported(node, package))


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of the program in a file."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf8"), str(path)))]


def imported(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a statement or a call imports into a module of a package."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, base] if base else parents)
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
        yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def is_typing(node: ast.AST) -> bool:
    """Return True for `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def unit_of(module: str) -> str:
    """Return the unit of a module of the package: the longest name in PLACES that begins its name, or `__init__`."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in names if name in PLACES), "__init__")


MODULES = {name_of(PACKAGE, path): path for path in files(PACKAGE)}


def below(layer: str) -> set[str]:
    """Return the units of all layers below a layer."""
    names = list(UNITS_OF)
    return {unit for name in names[: names.index(layer)] for unit in UNITS_OF[name]}


def test_every_module_has_its_layer() -> None:
    found = {unit_of(name) for name in MODULES}
    assert found == set(PLACES), "docs/layers.toml names each unit, and nothing else"
    assert [name for name in MODULES if unit_of(name) == "__init__"] == ["aiompi"], "give them a layer there"


def taken() -> Iterator[tuple[str, str]]:
    """Pairs of modules of the package, of which the first imports the second one, which may be of elsewhere."""
    for name, path in MODULES.items():
        for module in imports(path, name):
            yield name, module


def test_imports_point_to_lower_layers() -> None:
    pairs = [(name, module) for name, module in taken() if module.split(".")[0] == "aiompi"]
    between = [(name, module) for name, module in pairs if unit_of(name) != unit_of(module)]
    assert [pair for pair in between if PLACES[unit_of(pair[0])] < PLACES[unit_of(pair[1])]] == []
    assert [pair for pair in between if (unit_of(pair[0]), unit_of(pair[1])) in APART] == []


def test_only_some_units_import_event_loops_sockets_and_threads() -> None:
    pairs = [(name, module) for name, module in taken() if unit_of(name) in below("faces")]
    worldly = [(name, module) for name, module in pairs if module.split(".")[0] in WORLDLY]
    assert [pair for pair in worldly if unit_of(pair[0]) not in WORLDLY[pair[1].split(".")[0]]] == []


def test_faces_import_no_event_loops() -> None:
    loops = ("asyncio", "uvloop", "selectors", "select", "threading")
    pairs = [(name, module) for name, module in taken() if unit_of(name) in ("face", "MPI")]
    assert [pair for pair in pairs if pair[1].split(".")[0] in loops] == []


def taken_by_the_launcher() -> Iterator[tuple[str, str]]:
    """The same of modules of the launcher."""
    for path in files(LAUNCHER):
        name = name_of(LAUNCHER, path)
        for module in imports(path, name):
            yield name, module


def test_launcher_imports_the_lowest_layer_and_what_the_page_names() -> None:
    """It starts without the engine. Of the package itself it takes the version."""
    named = tuple(f"aiompi.{name}." for name in names_in_the_sentence("It starts without NumPy, because it imports"))
    ours = [(name, module) for name, module in taken_by_the_launcher() if module.split(".")[0] == "aiompi"]
    others = [(name, module) for name, module in ours if not f"{module}.".startswith(named)]
    assert [pair for pair in others if unit_of(pair[1]) not in {*UNITS_OF["words"], "__init__"}] == []


def test_units_of_the_launcher_import_earlier_ones() -> None:
    units = [*LAYERS["launcher"], "conformance"]  # which the next test holds apart
    for name, module in taken_by_the_launcher():
        package, _, rest = module.partition(".")
        unit = rest.partition(".")[0]
        if name != LAUNCHER.name and package == LAUNCHER.name and unit != "conformance":
            assert units.index(unit) <= units.index(name.split(".")[1]), f"{name} imports {module}"


def test_the_conformance_tester_stands_alone() -> None:
    """The tester has to find mistakes of aiompi, so it shares nothing with aiompi or with the launcher."""
    own = "aiompi_launcher.conformance"
    pairs = [(name, module) for name, module in taken_by_the_launcher() if f"{name}.".startswith(f"{own}.")]
    assert len(pairs) > 100
    others = [(name, module) for name, module in pairs if not module.startswith(own)]
    assert [pair for pair in others if pair[1].split(".")[0] in ("aiompi", "aiompi_launcher")] == []


def test_files_are_short() -> None:
    sizes = {path: len(path.read_text(encoding="utf8").splitlines()) for path in (*files(PACKAGE), *files(LAUNCHER))}
    assert {path: lines for path, lines in sizes.items() if lines >= LONGEST} == {}


@pytest.mark.parametrize("root", [PACKAGE, LAUNCHER], ids=lambda path: path.name)
def test_files_import_each_other_in_no_circle(root: Path) -> None:
    assert circles(root) == set()


def circles(root: Path) -> set[tuple[str, ...]]:
    """Return the sets of files that import each other in a circle. Imports for type checkers do not count."""
    modules = {name_of(root, path): path for path in files(root)}
    reached: dict[str, set[str]] = {}
    for name, path in modules.items():
        taken = imports(path, name, typing=False)
        reached[name] = {m if m in modules else m.rpartition(".")[0] for m in taken} & modules.keys() - {name}
    grown = True
    while grown:
        grown = False
        for name, others in reached.items():
            more = others.union(*(reached[other] for other in others))
            grown = grown or len(more) > len(others)
            reached[name] = more
    rings = {
        name: tuple(sorted(other for other in others if name in reached[other])) for name, others in reached.items()
    }
    return {rings[name] for name, others in reached.items() if name in others}


def test_functions_are_short() -> None:
    for path in (*files(PACKAGE), *files(LAUNCHER)):
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node, clean=False) or ""
                lines = (node.end_lineno or node.lineno) - node.lineno + 1 - len(docstring.splitlines())
                assert lines <= LONGEST_FUNCTION, f"{path}: {node.name}"


def test_classes_are_short() -> None:
    others = [path for name, path in MODULES.items() if unit_of(name) != "face"]
    for path in (*others, *files(LAUNCHER)):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                assert (node.end_lineno or 0) - node.lineno < LONGEST_CLASS, f"{path}: {node.name}"


def test_imports_inside_functions_say_why() -> None:
    silent = [f"{path}:{line}" for path in (*files(PACKAGE), *files(LAUNCHER)) for line in late_imports(path)]
    assert silent == [], "a comment beside the import or above it has the reason"


def late_imports(path: Path) -> Iterator[int]:
    """Yield the first lines of imports inside functions that have no comment, neither beside them nor above them."""
    lines = ["", *path.read_text(encoding="utf8").splitlines()]
    for function in nodes_of(path):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for block in blocks_of(function):
                for late, group in itertools.groupby(block, lambda node: isinstance(node, ast.Import | ast.ImportFrom)):
                    first, *others = group
                    text = lines[first.lineno - 1 : ([first, *others][-1].end_lineno or first.lineno) + 1]
                    if late and not any("#" in re.sub("# noqa: [A-Z0-9]+", "", line) for line in text):
                        yield first.lineno


def blocks_of(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the sequences of statements in a function."""
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


@UNMEASURED
def test_launchers_part_of_the_package_is_light() -> None:
    """The launcher and every rank import these modules at their start."""
    script = (
        "import sys, aiompi, aiompi.errors, aiompi.settings, aiompi.wire.control, aiompi.wire.hello, aiompi.impi\n"
        "heavy = {'numpy', 'asyncio', 'uvloop', 'socket', 'ssl', 'aiompi.engine'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LIMIT)


# Tests of the checks themselves.


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "import a.b as c, d\n"
        "from aiompi import errors\n"
        "from . import sibling\n"
        "from .sibling import name\n"
        "from ..upper import other\n"
        "if TYPE_CHECKING:\n    from e import f\n"
        "def function():\n    import g\n    importlib.import_module('h.i')\n"
    )
    assert list(imports(tmp_path / "module.py", "aiompi.unit.module")) == [
        "typing.TYPE_CHECKING",
        "a.b",
        "d",
        "aiompi.errors",
        "aiompi.unit.sibling",
        "aiompi.unit.sibling.name",
        "aiompi.upper.other",
        "e.f",
        "g",
        "h.i",
    ]


def test_a_circle_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "house"
    (root / "unit").mkdir(parents=True)
    for name, text in {
        "__init__": "from house import top",
        "top": "from house.unit.a import f",
        "unit/__init__": "",
        "unit/a": "from house.unit import b",
        "unit/b": "def function():\n    from house.unit.c import g",
        "unit/c": "import house.unit.a",
        "unit/d": "from typing import TYPE_CHECKING\nimport house.unit.e\n",
        "unit/e": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.unit.d\n",
    }.items():
        (root / f"{name}.py").write_text(text)
    assert circles(root) == {("house.unit.a", "house.unit.b", "house.unit.c")}


def test_an_import_without_a_reason_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "import a\n"
        "def function():\n"
        "    import b\n"
        "    if b:\n        import c  # slow\n        import d\n"
        "    # Slow, too.\n    import e\n"
        "    return lambda: 0\n"
    )
    assert list(late_imports(tmp_path / "module.py")) == [3]


def test_units() -> None:
    assert unit_of("aiompi.engine.peer") == "engine"
    assert unit_of("aiompi.errors.OtherError") == "errors"
    assert unit_of("aiompi") == unit_of("aiompi.World") == "__init__"
    assert len(MODULES) > 50


def names_in_the_sentence(start: str) -> list[str]:
    """The units and modules of the package that a sentence of the page about the architecture names, in their order."""
    text = " ".join(ARCHITECTURE.read_text("utf-8").split())
    sentence = text[text.index(start) :].partition(". ")[0]
    return [name for name in re.findall(r"`([\w.]+)`", sentence) if name in PLACES or f"aiompi.{name}" in MODULES]


def test_the_page_names_the_units_up_to_the_engine_that_know_the_world() -> None:
    named = names_in_the_sentence("Up to the engine, only")
    low = {"engine", *below("engine")}
    assert set(named) == {unit for units in WORLDLY.values() for unit in units if unit in low}


def test_the_page_names_the_units_below_the_faces_that_rebind_global_names() -> None:
    low = {name: path for name, path in MODULES.items() if unit_of(name) in below("faces")}
    rebind = {
        unit_of(name) for name, path in low.items() if any(isinstance(node, ast.Global) for node in nodes_of(path))
    }
    assert rebind == set(names_in_the_sentence("Below the faces, only"))


def test_figures_on_the_page_are_those_of_the_code() -> None:
    text = " ".join(ARCHITECTURE.read_text("utf-8").split())
    assert f"At most {MAX_ANNOUNCED:,} messages are announced to a peer" in text
    assert f"by ssh or srun, at most {WIDTH}," in text
    assert f"A record of {RECORD.size} bytes for each operation" in text


def test_the_page_explains_units_that_exist() -> None:
    text = ARCHITECTURE.read_text("utf-8").partition("## Ideas behind the units")[2]
    explained = [
        name for names in re.findall(r"^(`.*`)$", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", names)
    ]
    assert len(explained) > 10
    assert [name for name in explained if name not in {part for unit in MODULES for part in unit.split(".")}] == []


def test_no_program_of_ours_is_started_by_name() -> None:
    """PATH may have another one, or none: a command begins with `sys.executable`."""
    ours = set(tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["scripts"])
    sources = [*files(PACKAGE), *files(LAUNCHER)]
    assert [f"{path}:{line}" for path in sources for line in _begins_with(path, ours)] == []


def _begins_with(path: Path, names: set[str]) -> Iterator[int]:
    """Lines of tuples and lists, of two items or more, whose first item is one of these names."""
    for node in nodes_of(path):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=first), _, *_]) | ast.List(elts=[ast.Constant(value=first), _, *_]):
                if first in names:
                    yield node.lineno
