"""Lists of hosts as Slurm writes them."""

from __future__ import annotations

import itertools
import math
import re
from typing import Final

from aiompi.errors import InvalidArgumentError

_RANGE: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MOST: Final = 2**20  # nodes


def expand(text: str) -> list[str]:
    """Return the names in a list of hosts: "a[01-03,7],b" gives a01, a02, a03, a7 and b.

    Raises:
        InvalidArgumentError: the text is not a list of hosts.
    """
    names: list[str] = []
    for word in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+|[\[\]]", text):
        parts = [_alternatives(part, text) for part in re.split(r"(\[[^\]]*\])", word)]
        if len(names) + math.prod(map(len, parts)) > _MOST:
            raise InvalidArgumentError(f"{text!r} has more than {_MOST} hosts")
        names += map("".join, itertools.product(*parts))
    return names


def _alternatives(part: str, text: str) -> list[str]:
    if not part.startswith("["):
        if set(part) & set("[]"):
            raise InvalidArgumentError(f"{text!r} is no list of hosts")
        return [part]
    found = []
    for word in part[1:-1].split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            raise InvalidArgumentError(f"{text!r} is no list of hosts: {word!r} is no range of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) > _MOST:
            raise InvalidArgumentError(f"{text!r} has more than {_MOST} hosts")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
