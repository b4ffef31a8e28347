"""Messages between ranks of one host, through shared memory.

Two ranks that talk share a segment (`segment`): a ring of frames for each direction (`ring`, its control `words`, and its
ends `inbound` and `outbound`) and two doorbells. `link` carries the frames of one peer, `outgoing` those that wait for
room, and `transport` makes links. A message goes the first of these ways that is open to it; limits are the defaults.

| way             | messages                      | copied by    | frame in the ring     | modules     |
|-----------------|-------------------------------|--------------|-----------------------|-------------|
| the ring        | up to 128 KiB                 | both         | the message           | `ring`      |
| the pool        | up to 2 MiB                   | both at once | LENT, a place there   | `pool`      |
| the same, kept  | up to 2 MiB, objects          | the sender   | LENT, a place there   | `stay`      |
| by the kernel   | longer than 2 MiB             | both at once | EXPOSED, addresses    | `cma`       |
| in chunks       | all others                    | both         | RTS, then the message | `outgoing`  |
| slots           | of collectives, up to 32 KiB  | each         | none                  | `board`     |

Pools and boards are areas of one rank that its peers read (`area`), handed over as descriptors (`descriptors`). `sharing`
has what two ranks have of each other beside the rings. `neighbour` is the process of a peer, from and to whose memory the
kernel copies.
"""

from aiompi.transport.shared_memory.transport import SharedMemory

__all__ = ["SharedMemory"]
