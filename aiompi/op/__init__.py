"""Reduction operations (section 4.9)."""

from aiompi.op import predefined
from aiompi.op.operation import Op
from aiompi.op.predefined import *  # noqa: F403

__all__ = ["Op"]
__all__ += predefined.__all__
