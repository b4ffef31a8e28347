"""The generator of the faces, `aiompi/face/generate`, which is not installed with the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

_PATH: Final = Path(__file__).parents[2] / "aiompi/face/generate"
_NAME: Final = "generator_of_faces"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location(_NAME, _PATH / "__init__.py", submodule_search_locations=[str(_PATH)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return importlib.import_module(f"{_NAME}.__main__")


generate: Final = _load()
