"""`WatchedBytes`, memory that reports when nothing refers to it any more. A separate module, because it needs NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class WatchedBytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes in the memory of another object; that object is not an array.

    Every array or memoryview over the memory keeps a reference to this array: NumPy shortens the chain of bases of a
    new view only to an array of the view's own class.

    Attributes:
        on_end: called when nothing refers to the memory any more; None in a view.
    """

    on_end: Callable[[], object] | None = None

    def __del__(self) -> None:
        if self.on_end is not None:
            self.on_end()
