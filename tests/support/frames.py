"""The header of a frame with names for its fields."""

from __future__ import annotations

from typing import NamedTuple


class Header(NamedTuple):
    """Fields of a frame in wire order."""

    kind: int
    tag: int = 0
    source: int = 0
    credit: int = 0
    context: int = 0
    length: int = 0
    srqid: int = 0
    drqid: int = 0
