"""The README and the documentation are true: programs and commands run, tables and names agree with the code."""

from __future__ import annotations

import ast
import functools
import importlib
import io
import os
import re
import shutil
import signal
import sys
import tomllib
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aiompi import core, settings
from aiompi.bench.__main__ import main as bench
from aiompi.coll.registry import COLLECTIVES
from aiompi_launcher import cli, spec
from aiompi_launcher.conformance import cli as conformance
from support import kernels, pages
from support.cases import cases
from support.jobs import Site
from support.pages import DOCUMENTS, PAGES, ROOT, name_of, rows, text_of

README = ROOT / "README.md"
IMAGES = ROOT / "docs/pages/images"
REFERENCE = ROOT / "docs/pages/reference"
CODE = ROOT / "docs/pages/explanation/code.md"
#: programs in `sh` blocks that others have made
OTHERS = {
    "cd", "git", "mkdocs", "pytest", "python3", "curl", "kubectl", "openssl", "sbatch", "srun", "torchrun",
    "pre-commit", "ruff", "mypy", ".", ".ci/run", ".ci/coverage", "mpirun", "mpiexec", "dask-mpi", "export",
}  # fmt: skip
#: words of other programs and libraries, and of MPI, in which documents are free
FOREIGN = {"memcpy", "malloc", "marshal", "multiprocessing", "_multiprocessing", "aplus", "hvector", "gc", "freeze"} | {
    "ziglang",
    "BatchMode", "ControlMaster", "ForwardAgent", "ServerAliveInterval", "salloc", "sbatch", "ssh", "taskset",
    "getenv", "getsource", "ptrace_scope", "upload_file", "ipyparallel", "Cluster", "eventfd_write", "pyproject",
    "toml", "hatch_build", "py", "PYTHONWARNINGS",
}  # fmt: skip

consoles = pytest.mark.parametrize(
    ("path", "number"),
    [(path, i) for path in DOCUMENTS for i, _ in enumerate(pages.blocks(path, "console"))],
    ids=lambda value: name_of(value) if isinstance(value, Path) else str(value),
)


def test_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 9 * 1024


def test_every_python_block_is_run() -> None:
    """As a cell, or as a program that a command of the same document names, perhaps as a module."""
    for path in DOCUMENTS:
        lines = " ".join(text for _, text in pages.blocks(path, "console"))
        lines += " ".join(comment for comment, _ in pages.blocks(path, "text"))
        names = [name for name in pages.programs(path) if name not in lines]
        assert [name for name in names if name.replace(".py", ":app") not in lines] == [], path
        assert len(pages.programs(path)) + len(pages.cells(path)) == len(list(pages.blocks(path, "python"))), path


def test_pip_has_an_environment() -> None:
    """The pip of a distribution refuses to install anything outside of one (PEP 668)."""
    for path in DOCUMENTS:
        made = False
        for line in text_of(path).splitlines():
            made |= "python3 -m venv" in line
            assert made or not re.match(r" *(?:[A-Z_]+=\S+ )?pip install\b", line), (path, line)
        assert not made or "apt install python3-venv" in text_of(path), path


@consoles
def test_commands(site: Site, path: Path, number: int) -> None:
    """The commands of a document do what it says."""
    block = list(pages.blocks(path, "console"))[number][1]
    if "curl" in block and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    if path.name == "ray.md" and find_spec("ray") is None:
        pytest.skip("pip install '.[ray]'")
    block, *texts = pages.localized([block, *pages.programs(path).values()])
    for name, text in zip(pages.programs(path), texts, strict=True):
        site.program(text, name)
    (site.directory / "examples").symlink_to(ROOT / "examples")
    commands = pages.commands(block)
    path_of_tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {
        "PATH": path_of_tools,
        # Plugins for asyncio must leave tests alone. The other plugins take a third of the time of each process.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p aiompi.testing -p asyncio -p anyio -p no:cacheprovider"
        " -W ignore::pytest.PytestDeprecationWarning",
    }
    if path.name == "dask.md":
        environ["PYTHONWARNINGS"] = "ignore"  # Dask warns when another program has the port of its dashboard
        environ["DASK_LOGGING__DISTRIBUTED"] = "critical"  # it says much where the machine is slow
    running = {}
    for terminal, script in pages.scripts(commands, site.directory).items():
        log = pages.log_of(site.directory, terminal)
        log.touch()
        running[terminal] = site.start("bash", "-c", f"exec >{log} 2>&1\nset -e\n{script}", env=environ)
    for terminal, shell in running.items():
        code = shell.finish().code
        printed = pages.log_of(site.directory, terminal).read_text(encoding="utf-8")
        assert pages.unlike(printed, commands, terminal) == "", printed
        assert code == 0 or re.search(" failed(:| in )", block), printed


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if pages.cells(path)], ids=name_of)
def test_cells_of_a_notebook(path: Path) -> None:
    """The cells run in a kernel of Jupyter; their output is in the `text` block after them."""
    with kernels.notebook() as notebook:
        printed = "".join(map(notebook.text, pages.cells(path)))
    assert printed == "".join(text for _, text in pages.blocks(path, "text"))


@cases("path", DOCUMENTS)
def test_commands_that_are_not_run_are_possible(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    for words in filter(None, pages.shell_lines(path)):
        program, *arguments = words
        if program in ("aiompi-launch", "impirun"):
            cli.parse(arguments, program)
        elif program == "pip":
            assert set(re.findall(r"\[(\w+)\]", " ".join(arguments))) <= extras.keys()
        elif words[:3] == ["python", "-m", "aiompi.bench"]:
            accepted(bench, [*arguments[2:], "--help"], monkeypatch)
        elif program == "aiompi-impi-tester":
            accepted(conformance.main, [*arguments, "--help"], monkeypatch)
        elif program == "python":
            module = arguments[0] == "-m"
            assert importlib.util.find_spec(arguments[1]) if module else (ROOT / arguments[0]).exists(), words
        else:
            assert program in OTHERS, f"the tests do not know the command {' '.join(words)}"


def accepted(main: Any, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line with `--help` at its end ends well if all before that is understood."""
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    with redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


@cases("path", DOCUMENTS)
def test_names_are_there(path: Path) -> None:
    """Documents mention only modules, names of the package, paths and settings that exist."""
    text = re.sub(r"^```python\n.*?^```$", "", text_of(path), flags=re.MULTILINE | re.DOTALL)
    assert [name for name in re.findall(r"`(aiompi(?:\.\w+)+)(?:\([^`]*\))?`", text) if not is_there(name)] == []
    paths = re.findall(r"`((?:aiompi|launcher|tests|examples|docs)/[\w./-]*)`", text)
    assert [name for name in paths if not (ROOT / name).exists()] == []
    assert set(re.findall(r"\bAIOMPI_([A-Z_]+)\b(?!\.\.\.)", text)) <= known_variables()
    options = set(re.findall(r"(?<!\S)-[-\w]+", " ".join(re.findall(r"`(aiompi-launch [^`]*)`", text))))
    assert options <= options_of_the_launcher() | {"--help"}


@cases("path", PAGES)
def test_identifiers_are_in_the_code(path: Path) -> None:
    """Every word of an identifier in backticks is in the code, or in a program of the page itself."""
    text = text_of(path)
    prose = re.sub(r"^```\w+\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    identifiers = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\([^`]*\))?`", prose)
    known = words_of_the_code() | FOREIGN | set(re.findall(r"\w+", "".join(pages.programs(path).values())))
    assert [name for name in identifiers if not known.issuperset(name.removeprefix("AIOMPI_").split("."))] == []


@functools.cache
def words_of_the_code() -> set[str]:
    found = (path for name in ("aiompi", "launcher", "examples") for path in (ROOT / name).rglob("*.p[yx]*"))
    files = [path for path in found if path.suffix != ".pyc"]
    names = {path.stem for path in files} | known_variables()
    return names.union(*(re.findall(r"\w+", text_of(path)) for path in files))


def is_there(name: str) -> bool:
    """Return True if a dotted name can be imported, or is an attribute of what can."""
    module, _, rest = name.partition(".")
    found: Any = importlib.import_module(module)
    for part in filter(None, rest.split(".")):
        module = f"{module}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError as error:
                return error.name is not None and not error.name.startswith("aiompi")  # an extra is not installed
    return True


def known_variables() -> set[str]:
    """Environment variables, without AIOMPI_: of settings and builds, and those by which a launcher describes a job."""
    described = {"APPNUM", "COMPILE", "CONTROL", "CORE", "KEY", "KEY_FILE", "RANK", "SIZE", "SPAWN_OPTIONS"}
    return {name.upper() for name in settings.Settings.__dataclass_fields__} | described


@functools.cache
def options_of_the_launcher() -> set[str]:
    with redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit):
        cli.parse(["--help"], "aiompi-launch")
    usage = printed.getvalue().partition("\nexamples:")[0]
    entries = re.findall(r"^  (-\S.*?)(?:  |$)", usage, re.MULTILINE)
    return {word for entry in entries for word in re.findall(r"(?:^|, )(-[-\w]+)", entry)}


def test_table_of_options() -> None:
    cells = " ".join(row[0] for row in rows(REFERENCE / "launcher.md", "Options"))
    assert set(re.findall(r"`(-[-\w]+)", cells)) == options_of_the_launcher()


def test_table_of_settings() -> None:
    """Return names and defaults; defaults are written like values of the variable."""
    table = {name.strip("`"): default.strip("`") for name, default, _ in rows(REFERENCE / "settings.md")}
    assert list(table) == [f"AIOMPI_{name.upper()}" for name in settings.Settings.__dataclass_fields__]
    assert settings.load(table) == settings.Settings()


def test_table_of_exit_statuses() -> None:
    statuses = " ".join(row[0] for row in rows(REFERENCE / "launcher.md", "Exit status"))
    constants = {spec.EXIT_FAILURE, spec.EXIT_TIMEOUT, spec.EXIT_SIGNAL}
    assert {str(constant) for constant in constants} <= set(re.findall(r"\d+", statuses))


def test_table_of_examples() -> None:
    listed = [row[0].strip("`") for row in rows(ROOT / "docs/pages/tutorial/examples.md")]
    assert sorted(listed) == sorted(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py"))


def test_glossary_is_sorted_and_short_and_its_terms_are_in_use() -> None:
    terms = [row[0].lower() for row in rows(ROOT / "docs/pages/explanation/glossary.md")]
    assert terms == sorted(terms)
    assert len(set(terms)) == len(terms) <= 25
    texts = " ".join(text_of(path) for path in DOCUMENTS if path.name != "glossary.md").lower()
    words = [term.removesuffix(" (impi)") for term in terms]
    assert [word for word in words if not re.search(rf"\b{word}s?\b", texts)] == []


def test_the_changelog_is_short() -> None:
    """Each release takes at most 80 lines."""
    _, *releases = text_of(ROOT / "CHANGELOG.md").split("\n## ")
    assert releases
    assert max(release.count("\n") for release in releases) <= 80


def test_page_of_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has every algorithm, with a drawing."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    sections = importlib.import_module("generate").algorithms().split("\n### ")
    drawn = {section.partition("\n")[0] for section in sections if "```text\n" in section}
    for name, collective in COLLECTIVES.items():
        assert {f"{name}: {algorithm}" for algorithm in collective.algorithms} <= drawn


def test_pictures_are_those_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    drawings = importlib.import_module("drawings")
    assert [name for name, draw in drawings.DRAWINGS.items() if text_of(IMAGES / f"{name}.svg") != draw().svg()] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = text_of(ROOT / "docs/mkdocs.yml").partition("\nnav:\n")[2]
    assert [name_of(path) for path in PAGES if str(path.relative_to(ROOT / "docs/pages")) not in navigation] == []
    assert [name_of(path) for path in PAGES if not text_of(path).startswith(("# ", "--8<-- "))] == []


def test_links_lead_somewhere() -> None:
    for path in DOCUMENTS:
        targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text_of(path))
        assert [target for target in targets if "://" not in target and not (path.parent / target).exists()] == [], path


def test_job_that_hangs(site: Site) -> None:
    """Check the output without the times, and the second report with a shorter wait than the reader's."""
    page = ROOT / "docs/pages/howto/hangs.md"
    (expected,) = (text for comment, text in pages.blocks(page, "text") if comment.endswith("hang.py"))
    if core.form == "pure":
        expected = expected.replace("(shm)", "(recursive_doubling)")
    job = site.launch("-n", "4", site.program(pages.programs(page)["hang.py"], "hang.py"), env={"AIOMPI_DEBUG": "0.5"})
    first, *_, last = expected.splitlines(keepends=True)
    reports: list[str] = []
    while expected not in reports:  # a rank may answer too late on a busy machine
        job.expect(last, 2 + len(reports))
        printed = re.sub(r"\d+\.\d s", "5.0 s", job.err)
        reports = [(first + text)[: len(expected)] for text in printed.split(first)[2:]]
    job.signal(signal.SIGTERM)
    job.finish()


def defined_in(path: Path) -> set[str]:
    """The functions and classes of a module, those of a class as `Class.name`; inherited ones are not among them."""
    found: set[str] = set()
    for node in ast.parse(text_of(path)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{name}" for name in inner}
    return found


def test_the_page_of_the_code_names_functions_where_they_are() -> None:
    text = text_of(CODE)
    steps = re.findall(r"^\| .* \| `([\w.]+)` \| `([\w./]+\.py)` \|$", text, re.MULTILINE)
    assert len(steps) > 35
    assert [(name, path) for name, path in steps if name not in defined_in(ROOT / path)] == []
    assert [path for path in re.findall(r"`((?:aiompi|launcher)/[\w./]+)`", text) if not (ROOT / path).exists()] == []


def test_folders_import_those_below_them_on_the_page_of_the_code() -> None:
    """The page has every folder."""
    table = text_of(CODE).partition("## The folders")[2].partition("\n## ")[0]
    folders = {path.parent.name for path in (ROOT / "aiompi").glob("*/__init__.py")}
    assert set(re.findall(r"`aiompi/(\w+)`", table)) == folders
    assert folders <= set(re.findall(r"\w+", text_of(IMAGES / "layers.svg"))), "the picture of the layers lacks some"
    rank = {
        name: number
        for number, row in enumerate(table.splitlines())
        for name in re.findall(r"`aiompi/(\w+)`", row.split("|")[1] if row.startswith("|") else "")
    }
    upwards = {
        (name, other)
        for name in rank.keys() - {"job"}
        for path in (ROOT / "aiompi" / name).rglob("*.py")
        for other in re.findall(r"^\s*(?:from|import) aiompi\.(\w+)", text_of(path), re.MULTILINE)
        if rank.get(other, 100) < rank[name]
    }
    assert {(name, other) for name, other in upwards if other != "job"} == set()
