"""Warnings that raise in no call, also where warnings are errors."""

from __future__ import annotations

import warnings


class Notice:
    """Warns when it is finalized, at once if nobody keeps it: where warnings are errors none raises in a call."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __del__(self) -> None:
        warnings.warn(self._text, RuntimeWarning, stacklevel=2)
