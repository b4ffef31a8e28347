"""Worlds of ranks that share memory."""

from __future__ import annotations

import pytest


@pytest.fixture
def kind() -> str:
    return "shared_memory"
