"""Messages between ranks of one host, through shared memory. This needs the native form of the core.

Two ranks that talk share a segment (`sharing`): a ring of frames for each direction, and two doorbells. `link` carries
the frames of one peer, and `transport` makes links. The rings themselves are in the core. A message takes the first
path of this table that can carry it. The limits are the defaults.

| path          | messages                     | copied by    | frame in the ring     | files                    |
|---------------|------------------------------|--------------|-----------------------|--------------------------|
| whole         | up to 128 KiB                | both         | the message           | `core/native/ring.h`     |
| by the kernel | longer than 128 KiB          | both at once | EXPOSED, addresses    | `core/native/copy.h`     |
| streamed      | all others                   | both at once | the message, in parts | `core/native/ring.h`     |
| slots         | of collectives, to 256 KiB   | each         | none                  | `core/native/slots.h`    |

Slots are memory of one rank that its peers map and read (`slots`). Each peer gets the memory's descriptor. `sharing`
manages all memory that two ranks share, not only the rings.
"""

from aiompi.transport.shared_memory.transport import SharedMemory

__all__ = ["SharedMemory"]
