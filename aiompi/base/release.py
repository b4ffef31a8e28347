"""The version of this package, and of the protocols between its processes."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
#: rises with every change of the hello, of frames, control messages, messages of agents, cards and shared memory
PROTOCOL: Final = 1
