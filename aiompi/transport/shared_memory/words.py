"""The control words of a ring, by number: each is written by one of its two ends, and read by the other.

A word has 8 bytes. The writer's and the reader's lie in cache lines of their own, so that neither takes those of the
other away by writing its own.
"""

from __future__ import annotations

from typing import Final

#: of the writer, and of the reader behind them
WRITERS: Final = range(16)
READERS: Final = range(16, 32)
CONTROL_BYTES: Final = 8 * READERS.stop

# Written by the writer.
HEAD: Final = 0  # of frames: `ring`
WANTING: Final = 1
COMING: Final = 2
RETRACTED: Final = 3  # of messages that are exposed: `cma`
WRITING: Final = 4
WRITTEN: Final = 5

# Written by the reader.
TAIL: Final = 16  # of frames
WATCHING: Final = 17
GRANTED: Final = 18
READ: Final = 24  # of messages that are exposed
INVITED: Final = 25
