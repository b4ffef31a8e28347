"""The generator of the faces, `aiompi/face/generate.py`, which is not installed with the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

_PATH: Final = Path(__file__).parents[2] / "aiompi/face/generate.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("generator_of_faces", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate: Final = _load()
