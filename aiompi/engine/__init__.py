"""The engine of one rank: matching, protocols and progress, without sockets, clocks or event loops.

Calling an operation starts it and returns a `Request`; frames that arrive complete requests; a `Schedule` is a
request that runs a coroutine which awaits others. What waits, and how bytes move, is given from outside: a
`Driver` and one `Link` per peer (`seams`).
"""

from aiompi.engine.engine import Engine
from aiompi.engine.generalized import GeneralizedRequest
from aiompi.engine.message import Message
from aiompi.engine.party import Party
from aiompi.engine.peer import Peer
from aiompi.engine.persistent import PersistentRequest
from aiompi.engine.probe import Alarm
from aiompi.engine.receive import NotedReceive, Receive
from aiompi.engine.request import Owned, OwnedReceive, Request
from aiompi.engine.round import FIRST_COMMUNICATORS, LITTLE_ROOM, ROOM, Posting, Round, ordinal, room
from aiompi.engine.scattered import Scattered, ScatteredReceive
from aiompi.engine.schedule import Schedule, Turn
from aiompi.engine.seams import Assembly, Driver, Exhibit, Link, Poller, Timer, Waiter
from aiompi.engine.send import Mode, Send

__all__ = [
    "FIRST_COMMUNICATORS", "LITTLE_ROOM", "ROOM", "Alarm", "Assembly", "Driver", "Engine", "Exhibit",
    "GeneralizedRequest", "Link", "Message", "Mode", "NotedReceive", "Owned", "OwnedReceive", "Party", "Peer",
    "PersistentRequest", "Poller", "Posting", "Receive", "Request", "Round", "Scattered", "ScatteredReceive",
    "Schedule", "Send", "Timer", "Turn", "Waiter", "ordinal", "room",
]  # fmt: skip
