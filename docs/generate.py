"""Hook of mkdocs: generates parts of pages from the code, and refuses a site that loads anything from elsewhere.

The text of function NAME of this file replaces the line `<!-- generated: NAME -->` of a page.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError

import aiompi.errors
import aiompi.MPI
from aiompi.coll.registry import COLLECTIVES, Algorithm

_MARK: Final = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_PROGRAM: Final = re.compile(r"^<!-- file: (\S+) -->\n```python$", re.MULTILINE)
#: scripts, style sheets, images and fonts of another server
_FOREIGN: Final = re.compile(
    r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="?(?:https?:)?//[^>]*>|url\(["']?https?:"""
)
_CONDITIONS: Final = {
    "algorithm", "max_ranks", "max_bytes", "max_total", "shared_memory", "hosts", "power_of_two", "objects",
}  # fmt: skip
_UNITS: Final = ((2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))


def algorithms() -> str:
    """Return every collective with its algorithms, from the registry, the docstrings and the tuning table."""
    rules = json.loads(resources.files("aiompi.coll").joinpath("tuning.json").read_text(encoding="utf-8"))["rules"]
    parts = []
    for name, collective in COLLECTIVES.items():
        parts += [f"## {name}", "Chosen is the first of these that serves the call:"]
        parts.append("\n".join(f"1. {_rule(rule)}" for rule in rules[name]))
        for label, algorithm in sorted(collective.algorithms.items()):
            parts += [f"### {name}: {label}", *_described(algorithm)]
        for algorithm in collective.over_clients:
            parts += [f"### {name} between IMPI clients: {_name(algorithm)}", *_described(algorithm)]
        if collective.between_groups is not None:
            parts += [f"### {name} on an intercommunicator", *_described(Algorithm(collective.between_groups))]
    return "\n\n".join(parts)


def errors() -> str:
    """Return a table of the exceptions, with the error classes of MPI."""
    names = {getattr(aiompi.MPI, name): name for name in dir(aiompi.MPI) if name.startswith("ERR_")}
    lines = ["| exception | error class | meaning |", "|---|---|---|"]
    for name, kind in vars(aiompi.errors).items():
        if isinstance(kind, type) and issubclass(kind, aiompi.errors.MPIError) and kind is not aiompi.errors.MPIError:
            lines.append(f"| `{name}` | `{names[kind.error_class]}` | {(kind.__doc__ or '').partition(chr(10))[0]} |")
    return "\n".join(lines)


def layers() -> str:
    """Return a table of the layers, the highest first, from layers.toml."""
    lines = ["| layer | what it is for | units |", "|---|---|---|"]
    for layer in reversed(tomllib.loads((Path(__file__).parent / "layers.toml").read_text("utf-8"))["layer"]):
        units = ", ".join(f"`{'aiompi' if unit == '__init__' else unit}`" for unit in layer["units"])
        lines.append(f"| {layer['name']} | {layer['about']} | {units} |")
    return "\n".join(lines)


def examples() -> str:
    """Return the texts of the programs, each folded."""
    folder = Path(__file__).parent.parent / "examples"
    return "\n\n".join(
        f'??? example "{path.name}"\n    ```python\n    --8<-- "examples/{path.name}"\n    ```'
        for path in sorted(folder.glob("*.py"))
    )


def _name(algorithm: Algorithm[Any]) -> str:
    return algorithm.run.__name__


def _rule(rule: dict[str, Any]) -> str:
    """Return a rule of tuning.json in words."""
    conditions = []
    if "max_ranks" in rule:
        conditions.append(f"up to {rule['max_ranks']} ranks")
    if "max_bytes" in rule:
        conditions.append(f"up to {_size(rule['max_bytes'])}")
    if "max_total" in rule:
        conditions.append(f"up to {_size(rule['max_total'])} for all ranks together")
    if "shared_memory" in rule:
        conditions.append("all ranks share memory")
    if "hosts" in rule:
        conditions.append("ranks on several hosts, some of which share memory")
    if "power_of_two" in rule:
        conditions.append("the number of ranks is a power of two")
    if "objects" in rule:
        conditions.append("Python objects")
    unknown = rule.keys() - _CONDITIONS
    if unknown:
        raise PluginError(
            f"docs/generate.py does not know these conditions of tuning.json: {', '.join(sorted(unknown))}"
        )
    return f"`{rule['algorithm']}`: {', '.join(conditions) or 'otherwise'}"


def _size(nbytes: int) -> str:
    unit, name = next((unit, name) for unit, name in _UNITS if nbytes % unit == 0)
    return f"{nbytes // unit:,} {name}"


def _described(algorithm: Algorithm[Any]) -> Iterator[str]:
    """Return the docstring of an algorithm, with its drawing as a block of text."""
    for paragraph in (inspect.getdoc(algorithm.run) or "").split("\n\n"):
        if paragraph.startswith("    "):
            yield f"```text\n{textwrap.dedent(paragraph)}\n```"
        else:
            yield re.sub(r"([*_<>|])", r"\\\1", paragraph)
    limits = []
    if not algorithm.order_safe:
        limits.append("operations that commute")
    if not algorithm.any_form:
        limits.append("buffers with a length that all ranks know")
    if not algorithm.any_lengths:
        limits.append("blocks of one length")
    if limits:
        yield f"*Serves only {', '.join(limits)}.*"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert generated text where a page asks for it, and the names of programs above them."""
    markdown = _PROGRAM.sub(r'```python title="\1"', markdown)
    return _MARK.sub(lambda match: globals()[match[1]](), markdown)


def on_post_build(config: Any) -> None:
    """Refuse a site that loads anything from another server."""
    for path in Path(config.site_dir).rglob("*"):
        if path.suffix in (".html", ".css"):
            found = _FOREIGN.search(path.read_text(encoding="utf-8"))
            if found and 'rel="canonical"' not in found[0]:
                raise PluginError(f"{path} loads something from elsewhere: {found[0]}")
