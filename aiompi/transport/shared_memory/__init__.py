"""Shared memory, between ranks of one host: a ring for each direction between two ranks, made when they first talk.

`segment` is the memory, `ring` what is in it with its control `words`, `inbound` and `outbound` are its ends, `link`
carries frames through it, `outgoing` ones wait for room, `habit` says when to ring, `transport` makes links.

A message goes the first of these ways that is open to it, with limits as they are by default; what goes to several
ranks at once is lent.

| way                   | messages                        | copied by    | frame in the ring   | modules            |
|-----------------------|---------------------------------|--------------|---------------------|--------------------|
| memory of Alloc_mem   | longer than 128 KiB             | the receiver | LENT, a place there | `arena`            |
| into a posted receive | one piece, from 48 KiB; 128 KiB | the sender   | FILLED, instead     | `posted`           |
|                       | where ranks share cores         |              |                     |                    |
| the same, long        | from 512 KiB                    | both at once | FILLED, instead     | `posted`, `halves` |
| the ring              | up to 128 KiB, a piece or more  | both         | the message         |                    |
| the pool              | up to 2 MiB                     | both at once | LENT, a place there | `pool`             |
| the pool, staying     | up to 2 MiB, objects            | the sender   | LENT, a place there | `pool`, `stay`     |
| the pool, lent        | up to 2 MiB, to several ranks   | each         | LENT, a place there | `pool`             |
| from where it is      | longer than 2 MiB               | both at once | EXPOSED, addresses  | `cma`              |
| in chunks             | all others                      | both         | RTS, then pieces    | `outgoing`         |
| on a board            | of collectives, up to 32 KiB    | each         | none                | `board`            |

Pools, arenas and boards are each an `area` that others read: `sharing` is what two ranks have of each other so, and the
ways beside the ring; `descriptors` how areas are handed over. The kernel copies from and to the process of a
`neighbour`.
"""

from aiompi.transport.shared_memory.transport import SharedMemory

__all__ = ["SharedMemory"]
