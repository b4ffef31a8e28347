"""Arguments of the commands: types for argparse, and options that several commands have."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20}
_MOST_TURNS: Final = 1000


class Once(argparse.Action):
    """Keeps each of several words once, in order."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, values: Any, _option: object = None) -> None:
        setattr(namespace, self.dest, list(dict.fromkeys(values)))


def parser(command: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Return the parser for `python -m aiompi.bench COMMAND`. The lines of the epilog are not wrapped."""
    return argparse.ArgumentParser(
        allow_abbrev=False,
        prog=f"python -m aiompi.bench {command}".rstrip(),
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_sizes(parser: argparse.ArgumentParser, default: str) -> None:
    """Add --sizes; `default` is written as on the command line."""
    parser.add_argument("--sizes", type=sizes, default=sizes(default), metavar="BYTES,...", help=f"({default})")


def add_turns(parser: argparse.ArgumentParser, default: int) -> None:
    """Add --repeat."""
    parser.add_argument(
        "--repeat", type=count(_MOST_TURNS), default=default, metavar="N", help="turns of each side (%(default)s)"
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add --json and --quick."""
    parser.add_argument("--json", type=writable, metavar="FILE", help="write all samples there too")
    parser.add_argument("--quick", action="store_true", help="only see that everything runs; the figures mean little")


def add_awake(parser: argparse.ArgumentParser) -> None:
    """Add --awake."""
    parser.add_argument(
        "--awake",
        action="store_true",
        help="keep idle cores awake, as root: waking a process takes some 5 us then, not 40 on a virtual machine",
    )


def list_of(item: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Return a reader for comma-separated lists, which keeps each item once."""
    return lambda text: list(dict.fromkeys(item(part.strip()) for part in text.split(",")))


def ascending(item: Callable[[str], int]) -> Callable[[str], list[int]]:
    """Return a reader for comma-separated lists, which sorts the items."""
    return lambda text: sorted(list_of(item)(text))


def name(known: Collection[str]) -> Callable[[str], str]:
    """Return a reader for one of these names."""

    def read(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}")
        return text

    return read


def count(most: int) -> Callable[[str], int]:
    """Return a reader for a number from 1 to `most`."""

    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {most}")
        return int(text)

    return read


def positive(text: str) -> float:
    """Read a number greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number greater than 0")
    return value


def writable(text: str) -> Path:
    """Read the name of a file that can be written."""
    path = Path(text)
    if text == "-":
        raise argparse.ArgumentTypeError("- is no file, and standard output has the table: name a file")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory: name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written: permission denied")
    return path


def sizes(text: str) -> list[int]:
    """Read sizes such as 8,64k,4m."""
    return ascending(_size)(text)


def _size(text: str) -> int:
    digits = text.lower().rstrip("km")
    unit = text.lower()[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 8, 64k or 4m")
    return int(digits) * _UNITS[unit]
