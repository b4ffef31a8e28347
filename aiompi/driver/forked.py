"""Descriptors in the copy that a fork has made of a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable


def let_go(descriptors: Iterable[int]) -> None:
    """Have them lead nowhere, so that others see the end of the process that this one was forked from.

    Their numbers stay taken: objects refer to them, and will close them.
    """
    with contextlib.suppress(OSError), open(os.devnull, "r+b", buffering=0) as nowhere:
        for descriptor in descriptors:
            os.dup2(nowhere.fileno(), descriptor, inheritable=False)
