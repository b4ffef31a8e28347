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


#: the first words of the description of a send request, by mode
SENDS: Final = {
    Mode.STANDARD: "send to",
    Mode.BUFFERED: "bsend to",
    Mode.SYNCHRONOUS: "ssend to",
    Mode.READY: "rsend to",
}
