"""Messages between ranks of one host, through shared memory.

Two ranks that talk share a segment (`sharing`): a ring of frames for each direction (`ring`, and `inbound` for its
reading end) and two doorbells. `link` carries the frames of one peer, and `transport` makes links. A message goes the
first of these ways that is open to it. Limits are the defaults.

| way            | messages                     | copied by    | frame in the ring      | modules                  |
|----------------|------------------------------|--------------|------------------------|--------------------------|
| the ring       | up to 256 KiB                | both         | the message            | `ring`                   |
| the pool       | up to 2 MiB                  | both at once | IN_POOL, a place there | `pool`                   |
| the same, kept | up to 2 MiB, objects         | the sender   | IN_POOL, a place there | `pool`, `zero_copy_recv` |
| by the kernel  | longer than 2 MiB            | both at once | EXPOSED, addresses     | `cma`                    |
| in chunks      | all others                   | both         | RTS, then the message  | `link`                   |
| slots          | of collectives, up to 32 KiB | each         | none                   | `slots`                  |

Pools and slots are memory of one rank that its peers read (`export`), handed over as descriptors. `sharing` has what
two ranks have of each other beside the rings.
"""

from aiompi.transport.shared_memory.transport import SharedMemory

__all__ = ["SharedMemory"]
