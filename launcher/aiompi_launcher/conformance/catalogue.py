"""The scripts on disk: one text file each, in a folder for each group (section 5.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUFFIX: Final = ".impi"
SCRIPTS: Final = Path(__file__).parent / "scripts"
MANUAL: Final = Path(__file__).parent / "README.md"
_FIELD: Final = re.compile(r"^[ \t*]*(Rules|Setup|Caught):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FIELD_OF_SETUP: Final = re.compile(r"(\w+)=(-?\d+)")
_RULE: Final = re.compile(r"I\d+(?:\.\d+)*-\d+")


class CatalogueError(Exception):
    """A script does not exist, or its comment is wrong."""


@dataclass(frozen=True, slots=True)
class Script:
    """A test script.

    Attributes:
        name: `group/name`.
        description: the first sentence of its comment.
        rules: ids of the rules that it checks.
        setup: requirements on the job.
        caught: names of the faults that it detects.
    """

    name: str
    source: str
    description: str
    rules: tuple[str, ...]
    setup: dict[str, int]
    caught: tuple[str, ...]

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def read(path: Path, name: str) -> Script:
    """Read a script from a file.

    Raises:
        CatalogueError: the comment of the script does not have the expected form.
    """
    try:
        source = path.read_text(encoding="ascii")
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{path}: byte {error.start} is not an ASCII character") from None
    comment = re.match(r"\s*/\*(.*?)\*/", source, re.DOTALL)
    if comment is None:
        raise CatalogueError(f"{path} does not begin with a comment")
    fields = dict(_FIELD.findall(comment[1]))
    rules = tuple(_RULE.findall(fields.get("Rules", "")))
    if not rules:
        raise CatalogueError(f"the comment of {path} has no line Rules:")
    text = comment[1].split("Rules:")[0].replace("*", " ")
    setup = _FIELD_OF_SETUP.findall(fields.get("Setup", ""))
    if " ".join(f"{key}={value}" for key, value in setup) != " ".join(fields.get("Setup", "").split()):
        raise CatalogueError(f"{path}: Setup: has the form `clients=2 procs=1`, not `{fields['Setup']}`")
    needs = {key: int(value) for key, value in setup}
    return Script(name, source, " ".join(text.split()), rules, needs, tuple(fields.get("Caught", "").split()))


def load(root: Path = SCRIPTS) -> list[Script]:
    """Return all scripts by group and name. They are read again each time, so that changes take effect.

    Raises:
        CatalogueError: there are no scripts, or a script does not have the expected form.
    """
    paths = sorted(root.glob(f"*/*{SUFFIX}"))
    if not paths:
        raise CatalogueError(f"there are no scripts in {root}: they are files GROUP/NAME{SUFFIX}")
    return [read(path, str(path.relative_to(root).with_suffix(""))) for path in paths]


def select(scripts: list[Script], groups: list[str], names: list[str]) -> list[Script]:
    """Select scripts by group and by name; all scripts if neither is given.

    Raises:
        CatalogueError: a group or a name does not exist.
    """
    known = {script.group for script in scripts}
    if unknown := set(groups) - known:
        raise CatalogueError(f"there is no group {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    if unknown := set(names) - {script.name for script in scripts}:
        raise CatalogueError(f"there is no script {', '.join(sorted(unknown))}; `aiompi-impi-tester list` lists them")
    if not groups and not names:
        return scripts
    return [script for script in scripts if script.group in groups or script.name in names]
