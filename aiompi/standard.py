"""The chapters of MPI-4.1 that aiompi has. `MPI.Get_version` and the documentation follow from this table."""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple


class Chapter(NamedTuple):
    """A chapter of MPI-4.1.

    Attributes:
        number, title: as in the standard.
        calls: some of its calls, as attributes of `aiompi.MPI`; empty if aiompi has nothing of the chapter.
        missing: the part that aiompi does not have; empty if aiompi has the whole chapter.
    """

    number: int
    title: str
    calls: str
    missing: str = ""

    @property
    def extent(self) -> str:
        """How much of the chapter aiompi has, in words."""
        if not self.calls:
            return "not there"
        return "in part" if self.missing else "in full"


_BINDINGS: Final = 19

CHAPTERS: Final = (
    Chapter(3, "Point-to-point communication", "Comm.Isendrecv Comm.Rsend_init Comm.Mprobe Comm.Attach_buffer"),
    Chapter(4, "Partitioned point-to-point communication", "Comm.Psend_init Comm.Precv_init Prequest.Pready_list"),
    Chapter(5, "Datatypes", "Datatype.Create_darray Datatype.Get_value_index Datatype.Pack_external"),
    Chapter(6, "Collective communication", "Comm.Alltoallw_init Intracomm.Exscan Comm.Ireduce_scatter_block"),
    Chapter(7, "Groups, contexts, communicators, caching", "Comm.Idup_with_info Comm.Split_type Comm.Create_keyval"),
    Chapter(8, "Virtual topologies", "Intracomm.Create_dist_graph Cartcomm.Neighbor_alltoallw_init Compute_dims"),
    Chapter(9, "Environmental management", "Get_hw_resource_info Remove_error_class Comm.Create_errhandler Alloc_mem"),
    Chapter(10, "The info object", "Info.Create Info.Get_nthkey INFO_ENV"),
    Chapter(11, "Process initialization, creation and management", "Session.Create_group Intracomm.Spawn Comm.Join"),
    Chapter(12, "One-sided communication", "Win.Allocate_shared Win.Rget_accumulate Win.Compare_and_swap"),
    Chapter(13, "External interfaces", "Grequest.Start Status.Set_elements Init_thread"),
    Chapter(
        14,
        "I/O",
        "File.Write_ordered_begin File.Iread_at_all File.Set_view",
        "representations of data with functions of the program",
    ),
    Chapter(15, "Tool support", "Pcontrol", "the MPI_T interface; `aiompi.hooks` sees every call"),
    Chapter(_BINDINGS, "Language bindings", "", "C and Fortran"),
)

#: version of MPI whose calls aiompi has: 4.1, or 3.1 if a whole chapter other than the bindings is missing
VERSION: Final = (4, 1) if all(chapter.calls for chapter in CHAPTERS if chapter.number != _BINDINGS) else (3, 1)


def summary() -> str:
    """Return the extent of the whole standard in words."""
    words = []
    for extent, chapters in itertools.groupby(CHAPTERS, lambda chapter: chapter.extent):
        numbers = [chapter.number for chapter in chapters]
        last = f" {'to' if numbers[2:] else 'and'} {numbers[-1]}" if numbers[1:] else ""
        words.append(f"{numbers[0]}{last} {extent}")
    return f"chapters {', '.join(words)}"


def table() -> list[str]:
    """Return the lines of the table of chapters in the documentation."""
    rows = [f"| {it.number} | {it.title} | {it.extent} | {it.missing} |" for it in CHAPTERS]
    return ["| chapter of MPI-4.1 | | | missing |", "|---|---|---|---|", *rows]
