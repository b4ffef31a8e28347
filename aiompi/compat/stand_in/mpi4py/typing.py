"""Types of the arguments of communication."""

from aiompi.typing import *  # noqa: F403
