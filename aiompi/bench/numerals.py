"""Formats of numbers and sizes for tables."""

from __future__ import annotations


def number(value: float) -> str:
    """Return a number with three significant digits, or two below 0.1."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def size(nbytes: int) -> str:
    """Return a number of bytes with its unit."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if nbytes and nbytes % unit == 0:
            return f"{nbytes // unit} {name}"
    return f"{nbytes} B"
