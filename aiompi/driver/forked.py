"""Descriptors in the copy that a fork has made of a process."""

from __future__ import annotations

import os
from collections.abc import Collection


def let_go(descriptors: Collection[int]) -> None:
    """Have them lead nowhere, so that others see the end of the process that this one was forked from.

    Their numbers stay taken: objects refer to them, and will close them.

    Raises:
        OSError: the system has no memory for that.
    """
    if not descriptors:
        return
    os.close(next(iter(descriptors)))  # there may be no other number for the next one
    nowhere = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    for descriptor in descriptors:
        if descriptor != nowhere:
            os.dup2(nowhere, descriptor, inheritable=False)
    if nowhere not in descriptors:
        os.close(nowhere)
