"""A mark for tests of what processes import: where coverage is measured, each process imports coverage as well."""

from __future__ import annotations

import sys
from typing import Final

import pytest

UNMEASURED: Final = pytest.mark.skipif("coverage" in sys.modules, reason="each process imports coverage as well")
