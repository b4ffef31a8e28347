"""User-defined reduction functions (section 4.9.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from aiompi.datatype import Datatype, bytes_of
from aiompi.datatype.buffer.memory import buffer

Vector: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Combines vectors: inoutvec[i] = invec[i] o inoutvec[i], in place, for each invec.
Kernel: TypeAlias = Callable[[Iterable[Vector], Vector, Datatype], None]


def vector_kernel(function: Callable[..., Any]) -> Kernel:
    """Adapt a user function of memory, as `Op.Create` describes it, to numpy vectors."""

    def kernel(invecs: Iterable[Vector], inoutvec: Vector, datatype: Datatype) -> None:
        if inoutvec.size:
            for invec in invecs:
                function(buffer(bytes_of(invec)), buffer(bytes_of(inoutvec)), datatype)

    return kernel


def object_function(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Adapt a user function to two objects: the third argument, the datatype, is None."""

    def combine(a: Any, b: Any) -> Any:
        return function(a, b, None)

    return combine
