"""`Mode`: the communication modes of a send."""

from __future__ import annotations

import enum
from typing import Final


class Mode(enum.Enum):
    """Communication modes of a send (section 3.4)."""

    STANDARD = "standard"
    BUFFERED = "buffered"
    SYNCHRONOUS = "synchronous"
    READY = "ready"


#: how the request of a send of each mode begins what it says of itself
SENDS: Final = {
    Mode.STANDARD: "send to",
    Mode.BUFFERED: "bsend to",
    Mode.SYNCHRONOUS: "ssend to",
    Mode.READY: "rsend to",
}
