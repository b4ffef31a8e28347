"""Cells of a notebook that ranks run: `%load_ext aiompi.notebook`, `%aiompi start 4`, and `%%mpi` above a cell.

The ranks are processes of their own, started by `aiompi.spawn`, and end with the kernel. Each keeps its variables from
cell to cell. The modules on the side of the notebook are `ranks`, `job` for the work of its event loop, and `magics`
for its commands. The side of a rank is `worker`. Without magics:

    ranks = await aiompi.notebook.start(4)
    await ranks.run("total = await comm.allreduce(comm.rank)", limit=10)
    totals = await ranks.pull("total")
    await ranks.stop()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiompi.notebook.job import RanksError
from aiompi.notebook.ranks import Ranks, start

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["Ranks", "RanksError", "start"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add `%aiompi` and `%%mpi` to IPython: what `%load_ext aiompi.notebook` calls."""
    from aiompi.notebook.magics import Magics  # needs IPython, which `start` does not

    shell.register_magics(Magics)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """End the ranks: what `%unload_ext aiompi.notebook` calls."""
    magics = shell.magics_manager.registry["Magics"]
    magics.end()
