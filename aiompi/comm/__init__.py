"""Groups and communicators (chapter 5): who takes part, and in which context."""

from aiompi.comm.communicator import Channel, Communicator
from aiompi.comm.group import Group

__all__ = ["Channel", "Communicator", "Group"]
