"""Memory for programs: invalid lengths are refused, without any damage."""

from __future__ import annotations

import pytest

from support.jobs import FACES, Site, in_face

ALLOCATE = {"native": "comm.Alloc_mem", "blocking": "MPI.Alloc_mem"}


@pytest.mark.parametrize("face", FACES)
def test_what_is_no_length(site: Site, face: str) -> None:
    body = """
        for wrong, kind in ((3.5, TypeError), (2.0, TypeError), ("3", TypeError), (None, TypeError), (-1, ValueError)):
            try:
                ALLOCATE(wrong)
            except kind as error:
                assert "size is " + repr(wrong) + ": expected" in str(error), error
            else:
                raise AssertionError(wrong)
        room = ALLOCATE(5)
        room[:] = b"fives"
        assert (len(room), room.tobytes(), len(ALLOCATE(0))) == (5, b"fives", 0)
    """
    site.ok(2, in_face(face, body.replace("ALLOCATE", ALLOCATE[face])))
