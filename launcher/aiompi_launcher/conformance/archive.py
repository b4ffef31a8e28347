"""Packs the interpreter into one file; an implementation under test needs no other part of the tester (section 5.1)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Final

NAME: Final = "interpreter.pyz"
_PACKAGE: Final = Path(__file__).parent
_ROOT: Final = _PACKAGE.parent.parent
#: modules of the interpreter
_PARTS: Final = ("../__init__.py", "__init__.py", "interpreter.py", "delivery.py", "python_*.py", "script/*.py")
_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)  # constant, for reproducible bytes
_MAIN: Final = "import sys\n\nfrom aiompi_launcher.conformance.interpreter import main\n\nsys.exit(main())\n"


def interpreter() -> bytes:
    """Return the interpreter as a zip archive for Python 3.11 or later. It needs only an MPI module like mpi4py's."""
    parts = [path.resolve() for part in _PARTS for path in sorted(_PACKAGE.glob(part))]
    texts = {str(path.relative_to(_ROOT)): path.read_bytes() for path in parts} | {"__main__.py": _MAIN.encode()}
    data = io.BytesIO(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(data, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), text, zipfile.ZIP_DEFLATED)
    return data.getvalue()
