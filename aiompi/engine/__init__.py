"""The engine of one rank: matching, protocols and progress, without sockets, clocks or event loops.

Calling an operation starts it and returns a `Request`. Arriving frames complete requests. A `Schedule` is a request
that runs a coroutine, which awaits other requests. A `Driver` from outside decides how a rank waits, and one `Link` per
peer how bytes move (`seams`).
"""

from aiompi.core import AwaitableCall, Request
from aiompi.core.seams import Waiter
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.engine import Engine
from aiompi.engine.generalized import GeneralizedRequest
from aiompi.engine.message import Message
from aiompi.engine.peer import Peer
from aiompi.engine.persistent import PersistentRequest
from aiompi.engine.probe import MessageListener
from aiompi.engine.receive import Receive
from aiompi.engine.scattered import Scattered, ScatteredReceive
from aiompi.engine.schedule import ChainedRequest, Schedule
from aiompi.engine.seams import Driver, Link, Poller, RecoveryService, Timer
from aiompi.engine.send import Mode, Send
from aiompi.engine.slots import FIRST_COMMUNICATORS, LITTLE_ROOM, MOST_IN_ROUNDS, ROOM, ordinal, room

__all__ = [
    "AwaitableCall", "FIRST_COMMUNICATORS", "LITTLE_ROOM", "MOST_IN_ROUNDS", "ROOM", "MessageListener", "Driver",
    "Engine",
    "GeneralizedRequest", "Link", "Message", "Mode", "Endpoint", "Peer",
    "PersistentRequest", "Poller", "Receive", "RecoveryService", "Request", "Scattered",
    "ScatteredReceive", "Schedule", "Send", "Timer", "ChainedRequest", "Waiter", "ordinal", "room"
]  # fmt: skip
