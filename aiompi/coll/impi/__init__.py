"""Collectives over several IMPI clients, exactly as chapter 4 of IMPI 0.0 has them.

Between clients every message is prescribed: its sender and receiver, its tag, context and content. Each client
has a master, the lowest of its ranks (`masters`); it speaks for the others where messages are short, and everybody for
himself where they are long, of `xsize` bytes or more. Up to `maxlinear` masters send straight to the root, more of them
along trees (`trees`). Within a client anything is allowed: there the native algorithms run.

The algorithms move blocks and accumulators, as the native ones do; the content is in external32. They take a channel of
the communicator, from which `span` derives the clients of the members. Messages of 0 bytes are sent, too.

Chapter 4 has the collectives of MPI-1. What came later has no counterpart in other implementations of IMPI; over
clients it is only for jobs in which all are aiompi, and runs native algorithms on `EXTENSION_TAG`. Reduce_scatter_block
is a Reduce_scatter of equal counts, Alltoallw an Alltoallv. Nonblocking collectives send what the blocking ones do;
those of one communicator run one after the other, in the order in which they are started, as tags do not tell them
apart. A persistent collective, which matches nothing but its like, adds a number of its own to all tags.
"""
