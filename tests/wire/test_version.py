"""The number of the protocol follows what processes say to each other."""

from __future__ import annotations

import hashlib
import struct
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import aiompi
from aiompi.base import release
from aiompi.wire import control, frame, hello, version
from aiompi_launcher.hosts import messages

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: of what is said with the number of the protocol in `aiompi.base.release`
FINGERPRINT = "c68d1a3a7aa08f3b"


def forms(module: ModuleType) -> list[str]:
    """Return the structures and the numbers of a module."""
    values: dict[str, Any] = vars(module)
    structs = [f"{name} {value.format}" for name, value in values.items() if isinstance(value, struct.Struct)]
    return structs + [f"{name} {value}" for name, value in values.items() if name.isupper() and type(value) is int]


def table(messages: control.Table) -> list[str]:
    """Return the messages of a table with their fields."""
    return [f"{code} {kind.__name__} {kind._fields} {types}" for code, (kind, types) in messages.items()]


def test_a_change_of_what_is_said_raises_the_number_of_the_protocol() -> None:
    said = [*forms(hello), *forms(frame), *table(control.MESSAGES), *table(messages._FIELDS)]
    said += [str(each) for each in (control._CARD, messages.Plan._fields, messages.Part._fields)]
    fingerprint = hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    assert fingerprint == FINGERPRINT, (
        "raise PROTOCOL in aiompi/base/release.py, unless no version with this number was released, and note this one"
    )


def test_the_banner_never_changes_its_form() -> None:
    assert version.banner() == b"aiompi\0\1" + struct.pack("!I20s", release.PROTOCOL, release.VERSION.encode())


def test_the_version_is_that_of_the_package() -> None:
    assert aiompi.__version__ == release.VERSION == tomllib.loads(PYPROJECT.read_text("utf8"))["project"]["version"]
