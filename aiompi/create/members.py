"""Who makes a communicator out of another one."""

from __future__ import annotations

from aiompi.comm import Channel
from aiompi.create.clients import OneGroupOverClients, TwoGroupsOverClients
from aiompi.create.union import OneGroup, TwoGroups, Union


def members(channel: Channel) -> Union:
    """All who call a constructor on a communicator.

    Args:
        channel: of this call; on an intercommunicator it leads to the remote group.
    """
    native, local = channel.comm.native, channel.local
    if local is channel:
        return OneGroup(channel) if native else OneGroupOverClients(channel)
    return (TwoGroups if native else TwoGroupsOverClients)(local, channel)
