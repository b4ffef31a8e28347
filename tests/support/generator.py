"""The generator of the faces, `aiompi/face/generate`, which is not installed with the package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import aiompi.face

aiompi.face.__path__.append(str(Path(__file__).parents[2] / "aiompi/face"))
generate: Final[Any] = importlib.import_module("aiompi.face.generate.__main__")
