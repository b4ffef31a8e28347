"""A rank that `aiompi.spawn` has started to call a function: `python -m aiompi.job.spawned`."""

from __future__ import annotations

import inspect
import pickle
import sys

import aiompi


async def main(world: aiompi.World) -> None:
    """Receive a function from the program that has spawned this rank, call the function, and disconnect."""
    parent = world.Get_parent()
    packed, merge, path = await parent.bcast(None, root=0)
    sys.path[:] = path
    function, args = pickle.loads(packed)
    comm = await parent.Merge(high=True) if merge else parent
    result = function(comm, *args)
    if inspect.isawaitable(result):
        await result
    if comm:
        await comm.Disconnect()
    if parent and merge:
        await parent.Free()


if __name__ == "__main__":
    aiompi.run(main)
