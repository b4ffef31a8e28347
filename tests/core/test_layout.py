"""The number of the layout of shared memory, which two builds of the core compare before they share any."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[2] / "aiompi"
NATIVE: Final = SOURCES / "core" / "native"
#: the number, and the fingerprint of what it stands for
NUMBERED: Final = (4, "40d07579d462cffd")
#: constants of the headers that matter to one end only
OWN: Final = {"STEP", "LOOKS", "CRUMB", "PER_CLOCK", "WRONG", "YIELDS", "NO_PART"}


def headers() -> list[str]:
    """Return the headers about memory that processes share, without comments."""
    texts = [re.sub(r"/\*.*?\*/", "", path.read_text("utf8"), flags=re.DOTALL) for path in sorted(NATIVE.glob("*.h"))]
    return [text for text in texts if "aligned(LINE)" in text or '#include "ring.h"' in text]


def shared(text: str) -> Iterator[str]:
    """Yield the constants of a header, and its structures of which both ends see the fields."""
    for body in re.findall(r"\benum \{(.*?)\}", text, re.DOTALL):
        yield from (" ".join(each.split()) for each in body.split(",") if each.strip())
    yield from re.findall(r"^#define (\w+ .+)$", text, re.MULTILINE)
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.DOTALL):
        if "aligned(LINE)" in body or name in ("header_t", "piece_t"):
            yield f"{name} {' '.join(body.split())}"


def test_a_change_of_the_layout_raises_its_number() -> None:
    ring = (NATIVE / "ring.pxi").read_text("utf8")
    number, prefix = (int(re.findall(rf"\bRING_{name} = (\d+)", ring)[0]) for name in ("LAYOUT", "PREFIX"))
    found = [each for text in headers() for each in shared(text) if each.split()[0] not in OWN]
    for path in (*(SOURCES / "transport" / "shared_memory").glob("slots*.py"), SOURCES / "engine" / "slots.py"):
        found += re.findall(r"^[A-Z_]+: Final = .*$", path.read_text("utf8"), re.MULTILINE)
    said = "\n".join([f"PREFIX {prefix}", *found])
    assert all(name in said for name in ("words_t uint64_t written", "SKIP = 255", "PART = 128", "FAILED ((uint64_t)"))
    fingerprint = hashlib.sha256(said.encode()).hexdigest()[:16]
    assert (number, fingerprint) == NUMBERED, (
        "raise RING_LAYOUT in aiompi/core/native/ring.pxi, unless no version with this number has been released, and "
        f"note the new pair. A constant of one end alone belongs in OWN. This is the layout:\n{said}"
    )
