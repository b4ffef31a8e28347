"""Collectives over several IMPI clients, exactly as chapter 4 of IMPI 0.0 has them.

The standard prescribes every message between clients: its sender and receiver, its tag, context and content. Each
client has a master, the lowest of its ranks (`span`). Short messages pass through the masters; messages of `xsize`
bytes or more go straight from rank to rank. Up to `maxlinear` masters send straight to the root, more of them along
trees (`trees`). Within a client anything is allowed; the native algorithms run there.

The algorithms move blocks and accumulators, as the native ones do; the content is in external32. They take a channel of
the communicator, from which `span` derives the clients of the members. Messages of 0 bytes are sent, too.

Chapter 4 has the collectives of MPI-1. Later collectives have no counterpart in other implementations of IMPI. Over
clients they work only in jobs in which all clients are aiompi, and run native algorithms on `EXTENSION_TAG`.
Reduce_scatter_block is a Reduce_scatter of equal counts, Alltoallw an Alltoallv. Nonblocking collectives send the same
messages as blocking ones. Those of one communicator run one after the other, in the order in which they are started,
because tags do not distinguish them. A persistent collective adds a number of its own to all tags.
"""
