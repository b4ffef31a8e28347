"""What the tests of the conformance tester share: commands find the packages, and make their files apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.jobs import ROOTS


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For all commands that are started."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(ROOTS))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
