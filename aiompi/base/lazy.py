"""NumPy, imported when one of its names is first used: programs that send only objects and bytes do not need it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import TypeIs
else:

    class _NumPy:
        """Replaces the module; caches its used names as attributes."""

        def __getattr__(self, name: str) -> Any:
            import numpy  # only here: this module delays the import

            value = self.__dict__[name] = getattr(numpy, name)
            return value

    np = _NumPy()

__all__ = ["is_array", "np", "numpy_is_loaded"]


def numpy_is_loaded() -> bool:
    """Return True if NumPy has been imported. Otherwise no object can be of a type of NumPy."""
    return "numpy" in sys.modules


def is_array(obj: object) -> TypeIs[np.ndarray[Any, Any]]:
    """Return True for an array of NumPy, without importing NumPy."""
    return "numpy" in sys.modules and isinstance(obj, np.ndarray)
