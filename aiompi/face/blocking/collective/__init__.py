"""Collectives of the blocking face (chapter 4). All but `by_hand` are written by `aiompi/face/generate`."""

from aiompi.face.blocking.collective.by_hand import Collectives, NeighborhoodCollectives

__all__ = ["Collectives", "NeighborhoodCollectives"]
