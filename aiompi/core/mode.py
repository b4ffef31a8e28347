"""`Mode`: the communication modes of a send."""

from __future__ import annotations

import enum


class Mode(enum.Enum):
    """Communication modes of a send (section 3.4)."""

    STANDARD = "standard"
    BUFFERED = "buffered"
    SYNCHRONOUS = "synchronous"
    READY = "ready"
