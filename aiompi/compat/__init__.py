"""Running programs with `from mpi4py import MPI`, without mpi4py and without any MPI library.

    aiompi-launch --mpi4py -n 4 app.py
    aiompi-launch -n 4 -m aiompi.compat app.py

The folder `stand_in` holds a package named mpi4py whose modules are aiompi's. This folder comes first on `sys.path` in
these programs, and in the processes that they start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

STAND_IN: Final = str(Path(__file__).parent / "stand_in")


def pass_on(environ: MutableMapping[str, str]) -> None:
    """Make `import mpi4py` find the stand-in in the processes that are started with this environment."""
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != STAND_IN]
    environ["PYTHONPATH"] = os.pathsep.join([STAND_IN, *paths])


def install() -> None:
    """Make `import mpi4py` find the stand-in, in this process and in the processes that it starts from now on.

    Raises:
        RuntimeError: mpi4py itself has been imported already.
    """
    there = sys.modules.get("mpi4py")
    if there is not None and getattr(there, "__file__", None) != str(Path(STAND_IN, "mpi4py", "__init__.py")):
        raise RuntimeError("mpi4py has been imported already; call aiompi.compat.install() before")
    if STAND_IN not in sys.path:
        sys.path.insert(0, STAND_IN)
    pass_on(os.environ)
