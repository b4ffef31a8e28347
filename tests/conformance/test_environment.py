"""Chapter 7, environmental management: errors, clocks, start and end."""

from __future__ import annotations

import pytest

from aiompi import MPI
from aiompi.errors import ERROR_CLASSES
from support.cases import cases
from support.jobs import FACES, Site, in_face


@pytest.mark.spec("S7.2-10", "S7.3-1")
@cases("error_class", [MPI.SUCCESS, *ERROR_CLASSES])
def test_every_error_class_has_a_text(error_class: int) -> None:
    assert 0 < len(MPI.error_string(error_class)) <= MPI.MAX_ERROR_STRING
    if error_class != MPI.SUCCESS:
        error = ERROR_CLASSES[error_class]("what happened")
        assert error.Get_error_class() == error.error_class == int(error) == error_class
        assert error.Get_error_code() == error.error_code == error_class
        assert error.Get_error_string() == error.error_string == "what happened"
        assert MPI.SUCCESS < error_class <= MPI.ERR_LASTCODE


@pytest.mark.spec("S7.2-3")
@pytest.mark.parametrize("face", FACES)
def test_error_that_is_caught_ends_nothing(site: Site, face: str) -> None:
    body = """
    try:
        comm.isend(None, dest=99)
    except aiompi.MPI.InvalidRankError as error:
        print(await comm.allreduce(error.error_class == aiompi.MPI.ERR_RANK))
    """
    assert site.ok(2, in_face(face, body)).lines == ["2", "2"]


@pytest.mark.spec("S7.5-6")
@pytest.mark.parametrize(("code", "status"), [(0, 1), (1, 1), (77, 77), (256 + 5, 5)])
def test_abort_becomes_the_exit_status(site: Site, code: int, status: int) -> None:
    """Within what an exit status can hold, and never success."""
    result = site.run(2, in_face("native", f"if comm.rank == 0:\n    comm.Abort({code})\nawait comm.recv(source=0)"))
    assert result.code == status
    assert f"rank 0 called MPI_Abort({code})" in result.err


@pytest.mark.spec("S7.5-7")
@pytest.mark.parametrize("face", FACES)
def test_command_line_is_unchanged(site: Site, face: str) -> None:
    arguments = ["--steps", "3", "-n", "two words", ""]
    result = site.ok(1, in_face(face, "print(comm.rank, sys.argv[1:])"), *arguments)
    assert result.out == f"0 {arguments}\n"


@pytest.mark.spec("S7.1.1-3", "S7.4-1")
def test_clocks_of_one_machine_agree(site: Site) -> None:
    """A receive ends later than its send has begun, in each direction."""
    body = """
    began = MPI.Wtime()
    other = await comm.sendrecv(began, dest=1 - comm.rank, source=1 - comm.rank)
    print(began <= MPI.Wtime() and other <= MPI.Wtime())
    """
    assert site.ok(2, in_face("blocking", body)).lines == ["True", "True"]
