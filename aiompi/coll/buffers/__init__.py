"""Collectives on buffers: mpi4py's upper-case methods (chapter 4).

A call checks its arguments, starts the collective and returns its request. The method `init` binds the arguments to a
persistent request instead, and `using` names the algorithm (see `prepared`). The methods of the same names in
`aiompi.face.native.collective` describe the arguments. `aiompi.datatype.buffer.bufspec` and, for a block per rank,
`aiompi.datatype.buffer.vector` describe buffer specifications; an explicit count is that of one rank's block. Buffers
belong to the operation until the request is complete. Arguments that matter only at the root are ignored elsewhere.

Messages are packed. Blocks without gaps are sent from and received into the user's memory; others are packed at the
start, and unpacked when the algorithm has ended.

They raise, at the call:

    InvalidRootError     the root is no rank of the communicator
    InvalidBufferError   memory too small, read-only where it receives, shared by both buffers or by blocks that
                         receive, or IN_PLACE where it is not allowed
    InvalidCountError    blocks of send and receive buffer differ in size, or a buffer is no whole number of blocks
    InvalidTypeError     no datatype corresponds to the elements; a datatype that is not committed, or overlaps where
                         it receives; different datatypes in a reduction
    InvalidOpError       the operation is not defined for the datatype
    InvalidArgumentError a list is not as long as there are ranks
    TypeError            not a buffer specification

and when the request is awaited TruncationError or InvalidCountError, if another rank sent more or less than is
expected here (section 4.1).

On an intercommunicator those that MPI-2 has there run between its groups. `movement` has the collectives that move
data, `reduction` those that combine them, `neighborhood` those between neighbours.
"""

from aiompi.coll.buffers import neighborhood as neighborhood
from aiompi.coll.buffers.movement import (
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    alltoallw,
    barrier,
    bcast,
    gather,
    gatherv,
    scatter,
    scatterv,
)
from aiompi.coll.buffers.reduction import (
    allreduce,
    exscan,
    reduce,
    reduce_scatter,
    reduce_scatter_block,
    scan,
)

__all__ = [
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "bcast", "exscan",
    "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "scatter", "scatterv",
]  # fmt: skip
