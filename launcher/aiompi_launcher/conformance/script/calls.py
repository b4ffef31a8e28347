"""The calls that scripts can make, and the named constants they can use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: `in` parameters: buf (memory), int and ints (numbers), double, text, kinds of handles, status (an int array of 3).
#: `>` marks a parameter that a call only writes, `=` one that the call reads and writes. requests, statuses: arrays.
_SIGNATURES: Final = """
    MPI_Send(buf, int, type, int, int, comm)
    MPI_Bsend(buf, int, type, int, int, comm)
    MPI_Ssend(buf, int, type, int, int, comm)
    MPI_Rsend(buf, int, type, int, int, comm)
    MPI_Isend(buf, int, type, int, int, comm, >request)
    MPI_Ibsend(buf, int, type, int, int, comm, >request)
    MPI_Issend(buf, int, type, int, int, comm, >request)
    MPI_Irsend(buf, int, type, int, int, comm, >request)
    MPI_Send_init(buf, int, type, int, int, comm, >request)
    MPI_Bsend_init(buf, int, type, int, int, comm, >request)
    MPI_Ssend_init(buf, int, type, int, int, comm, >request)
    MPI_Rsend_init(buf, int, type, int, int, comm, >request)
    MPI_Recv(buf, int, type, int, int, comm, >status)
    MPI_Irecv(buf, int, type, int, int, comm, >request)
    MPI_Recv_init(buf, int, type, int, int, comm, >request)
    MPI_Start(=request)
    MPI_Startall(int, =requests)
    MPI_Request_free(=request)
    MPI_Sendrecv(buf, int, type, int, int, buf, int, type, int, int, comm, >status)
    MPI_Sendrecv_replace(buf, int, type, int, int, int, int, comm, >status)
    MPI_Wait(=request, >status)
    MPI_Test(=request, >int, >status)
    MPI_Waitall(int, =requests, >statuses)
    MPI_Waitany(int, =requests, >int, >status)
    MPI_Probe(int, int, comm, >status)
    MPI_Iprobe(int, int, comm, >int, >status)
    MPI_Cancel(=request)
    MPI_Test_cancelled(status, >int)
    MPI_Get_count(status, type, >int)
    MPI_Get_elements(status, type, >int)
    MPI_Buffer_attach(int)
    MPI_Buffer_detach()
    MPI_Pack(buf, int, type, buf, int, =int, comm)
    MPI_Unpack(buf, int, =int, buf, int, type, comm)
    MPI_Pack_size(int, type, comm, >int)
    MPI_Type_contiguous(int, type, >type)
    MPI_Type_vector(int, int, int, type, >type)
    MPI_Type_indexed(int, ints, ints, type, >type)
    MPI_Type_commit(=type)
    MPI_Type_free(=type)
    MPI_Barrier(comm)
    MPI_Bcast(buf, int, type, int, comm)
    MPI_Gather(buf, int, type, buf, int, type, int, comm)
    MPI_Gatherv(buf, int, type, buf, ints, ints, type, int, comm)
    MPI_Scatter(buf, int, type, buf, int, type, int, comm)
    MPI_Scatterv(buf, ints, ints, type, buf, int, type, int, comm)
    MPI_Allgather(buf, int, type, buf, int, type, comm)
    MPI_Allgatherv(buf, int, type, buf, ints, ints, type, comm)
    MPI_Alltoall(buf, int, type, buf, int, type, comm)
    MPI_Alltoallv(buf, ints, ints, type, buf, ints, ints, type, comm)
    MPI_Reduce(buf, buf, int, type, op, int, comm)
    MPI_Allreduce(buf, buf, int, type, op, comm)
    MPI_Reduce_scatter(buf, buf, ints, type, op, comm)
    MPI_Scan(buf, buf, int, type, op, comm)
    MPI_Op_create(function, int, >op)
    MPI_Op_free(=op)
    MPI_Comm_size(comm, >int)
    MPI_Comm_rank(comm, >int)
    MPI_Comm_remote_size(comm, >int)
    MPI_Comm_test_inter(comm, >int)
    MPI_Comm_compare(comm, comm, >int)
    MPI_Comm_group(comm, >group)
    MPI_Group_incl(group, int, ints, >group)
    MPI_Group_excl(group, int, ints, >group)
    MPI_Group_size(group, >int)
    MPI_Group_rank(group, >int)
    MPI_Group_free(=group)
    MPI_Comm_dup(comm, >comm)
    MPI_Comm_create(comm, group, >comm)
    MPI_Comm_split(comm, int, int, >comm)
    MPI_Comm_free(=comm)
    MPI_Intercomm_create(comm, int, comm, int, int, >comm)
    MPI_Intercomm_merge(comm, int, >comm)
    MPI_Attr_get(comm, key, >int, >int)
    MPI_Wtime(>double)
    TEST_simulated(int, >int)
    TEST_set(text, int)
    TEST_get(text, >int)
    printf(text, ...)
    report(text, ...)
    exit_interpreter()
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a call.

    Attributes:
        kind: as in the table.
        read, written: by the call.
    """

    kind: str
    read: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """A call of the table.

    Attributes:
        method: name of the method that performs it, such as `comm_rank`.
        format: True if the first argument is a format, and numbers follow.
    """

    name: str
    method: str
    parameters: tuple[Parameter, ...]
    format: bool


def _signature(line: str) -> Signature:
    match = re.fullmatch(r"(\w+)\((.*)\)", line)
    assert match is not None
    words = [word for word in match[2].split(", ") if word and word != "..."]
    parameters = tuple(Parameter(word.strip("=>"), word[0] != ">", word[0] in "=>") for word in words)
    return Signature(match[1], match[1].removeprefix("MPI_").lower(), parameters, "..." in line)


CALLS: Final[dict[str, Signature]] = {
    signature.name: signature for signature in map(_signature, map(str.strip, _SIGNATURES.strip().splitlines()))
}

_CONSTANTS: Final = {
    "int": "MPI_ANY_SOURCE MPI_ANY_TAG MPI_PROC_NULL MPI_UNDEFINED MPI_BSEND_OVERHEAD MPI_SUCCESS MPI_ERR_BUFFER"
    " MPI_ERR_COUNT MPI_ERR_TYPE MPI_ERR_TAG MPI_ERR_COMM MPI_ERR_RANK MPI_ERR_REQUEST MPI_ERR_ROOT MPI_ERR_GROUP"
    " MPI_ERR_OP MPI_ERR_ARG MPI_ERR_TRUNCATE MPI_ERR_OTHER MPI_IDENT MPI_CONGRUENT MPI_SIMILAR MPI_UNEQUAL",
    "type": "MPI_CHAR MPI_SHORT MPI_INT MPI_LONG MPI_LONG_LONG_INT MPI_UNSIGNED_CHAR MPI_UNSIGNED_SHORT MPI_UNSIGNED"
    " MPI_UNSIGNED_LONG MPI_UNSIGNED_LONG_LONG MPI_FLOAT MPI_DOUBLE MPI_LONG_DOUBLE MPI_BYTE MPI_PACKED MPI_FLOAT_INT"
    " MPI_DOUBLE_INT MPI_LONG_INT MPI_2INT MPI_SHORT_INT MPI_LONG_DOUBLE_INT MPI_DATATYPE_NULL",
    "op": "MPI_MAX MPI_MIN MPI_SUM MPI_PROD MPI_LAND MPI_BAND MPI_LOR MPI_BOR MPI_LXOR MPI_BXOR MPI_MAXLOC MPI_MINLOC"
    " MPI_OP_NULL",
    "comm": "MPI_COMM_WORLD MPI_COMM_SELF MPI_COMM_NULL",
    "group": "MPI_GROUP_EMPTY MPI_GROUP_NULL",
    "request": "MPI_REQUEST_NULL",
    "key": "MPI_TAG_UB IMPI_CLIENT_SIZE IMPI_CLIENT_COLOR IMPI_HOST_SIZE IMPI_HOST_COLOR",
    "function": "TEST_COMPOSE",
}

#: name of a constant -> kind
CONSTANTS: Final[dict[str, str]] = {name: kind for kind, names in _CONSTANTS.items() for name in names.split()}

COMPOSE_MODULUS: Final = 10007  # of TEST_COMPOSE

#: indices of a status (section 5.3), the same for all implementations
STATUS_INDICES: Final = {"MPI_SOURCE": 0, "MPI_TAG": 1, "MPI_ERROR": 2}
