"""Groups and communicators (chapter 5): which processes communicate, and in which context."""

from aiompi.comm.channel import Channel
from aiompi.comm.communicator import Communicator
from aiompi.comm.factory import derive, make_communicator
from aiompi.comm.group import Group

__all__ = ["Channel", "Communicator", "Group", "derive", "make_communicator"]
