"""The memory of slots, and how ranks hand it to the ranks that read it. `aiompi/core/native/slots.h` has its layout.

A rank has one piece of memory for the slots of all its communicators. Only the rank itself writes to this memory, and
each of its peers gets the descriptor once. The context id of a communicator selects its part of the memory. A part is
never reused for another communicator, because a slow member may still read it when the others have freed the
communicator. So only the first `PARTS` communicators of a job have a part. The parts of the `FIRST_COMMUNICATORS` are
large. All other parts are small, because every member reserves address space for the slots of all members.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from aiompi.core._native import LONG_PLACES, SLOTS_PREFIX
from aiompi.engine import FIRST_COMMUNICATORS, LITTLE_ROOM, ROOM, ordinal
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.descriptors import closing, receive_descriptors
from aiompi.wire import memory

#: communicators that have a part
PARTS: Final = 1024
_LARGE: Final = SLOTS_PREFIX + LONG_PLACES * ROOM
_LITTLE: Final = SLOTS_PREFIX + LONG_PLACES * LITTLE_ROOM
#: bytes of the slots of a rank; pages are taken when they are first written
SIZE: Final = FIRST_COMMUNICATORS * _LARGE + (PARTS - FIRST_COMMUNICATORS) * _LITTLE
#: message that comes with the descriptor
_LABEL: Final = struct.Struct("!Q")


def part_of(context: int) -> slice | None:
    """Return where the slots of a communicator are in the memory for slots; None if the communicator has none."""
    number = ordinal(context)
    if number >= PARTS:
        return None
    start = min(number, FIRST_COMMUNICATORS) * _LARGE + max(number - FIRST_COMMUNICATORS, 0) * _LITTLE
    return slice(start, start + (_LARGE if number < FIRST_COMMUNICATORS else _LITTLE))


class SlotArea:
    """The slots of this rank. Raises OSError if there is no memory.

    Attributes:
        memory: the memory of all slots.
    """

    def __init__(self) -> None:
        self._fd, mapped = memory.create(SIZE, own=True)
        self.memory = memoryview(mapped)

    def hand_to(self, sock: socket.socket) -> bool:
        """Let one more rank read the slots; return False if this fails."""
        try:
            socket.send_fds(sock, [_LABEL.pack(SIZE)], [self._fd])
        except OSError:
            return False  # if the connection is broken, the link will notice
        return True

    def close(self) -> None:
        """Close the descriptor, so that no further rank gets the memory. The memory is freed when no rank maps it."""
        os.close(self._fd)


def receive_slots(sock: socket.socket) -> memoryview | None:
    """Receive the slots of a peer; return None if the peer has closed the connection.

    Raises:
        RemoteProtocolError: the received data does not describe slots.
        OSError: no data has come, the connection failed, or this process lacks descriptors or address space.
    """
    data, fds = receive_descriptors(sock, _LABEL.size, 1)
    if not data:
        return None
    with closing(fds):
        if len(data) != _LABEL.size or len(fds) != 1:
            raise RemoteProtocolError("it spoke where it must be silent")
        (nbytes,) = _LABEL.unpack(data)
        if nbytes != SIZE:
            raise RemoteProtocolError(f"it has slots of {nbytes} bytes")
        return memoryview(memory.accept(fds[0], SIZE, own=False))
