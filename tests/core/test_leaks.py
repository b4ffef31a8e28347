"""What operations leave behind: no memory, no objects and no references."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import FACES, Site

PROGRAM = Path(__file__).parent / "leaks.py"


@pytest.mark.parametrize("face", FACES)
def test_nothing_is_left_of_operations_of_any_kind(site: Site, face: str) -> None:
    """Run the program by hand with 1000000 in place of 500 after a change of the core."""
    result = site.launch("-n", "2", str(PROGRAM), face, "500").finish()
    assert (result.code, result.err, result.out) == (0, "", "")
