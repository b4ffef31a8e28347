"""Cells of a notebook that ranks run: `%load_ext aiompi.notebook`, `%aiompi start 4`, and `%%mpi` above a cell.

`aiompi.spawn` starts the ranks as separate processes, which end with the kernel of the notebook. Each rank keeps its
variables from cell to cell. The process of the notebook uses the modules `ranks`, `job` (in its event loop) and
`magics` (its commands). A rank runs the module `worker`. Without magics:

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
