"""Another version of aiompi: a copy of this one with another number of the protocol."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from aiompi.base import release

from .jobs import ROOTS

PROTOCOL, VERSION = release.PROTOCOL + 1, "9.9.9"
#: how each of the two names both
OURS = f"aiompi {release.VERSION} (protocol {release.PROTOCOL})"
THEIRS = f"aiompi {VERSION} (protocol {PROTOCOL})"
SAID_HERE = f"it is {THEIRS}, and this process is {OURS}: all processes of a job need the same version"
SAID_THERE = f"it is {OURS}, and this process is {THEIRS}: all processes of a job need the same version"


def other_version(place: Path) -> str:
    """Make the other version below a directory; return PYTHONPATH for its processes."""
    roots = []
    for root in map(Path, ROOTS):
        for package in ("aiompi", "aiompi_launcher"):
            copy = place / "other" / root.name
            if (root / package).is_dir() and not (copy / package).exists():  # an installation has one root for both
                shutil.copytree(root / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
                roots.append(str(copy))
    path = next(path for root in roots if (path := Path(root, "aiompi", "base", "release.py")).exists())
    text = path.read_text()
    for name, old, new in (("PROTOCOL", release.PROTOCOL, PROTOCOL), ("VERSION", release.VERSION, VERSION)):
        before, after = (f"{name}: Final = {value!r}\n".replace("'", '"') for value in (old, new))
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    return os.pathsep.join(roots)
