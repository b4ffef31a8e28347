"""Numbers as one writes them."""

from __future__ import annotations


def number(value: float) -> str:
    """Three digits that matter."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def size(nbytes: int) -> str:
    """A number of bytes."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if nbytes and nbytes % unit == 0:
            return f"{nbytes // unit} {name}"
    return f"{nbytes} B"
