"""`Talk`: the calls, publications and shared dicts of a member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiompi.comm import Communicator
from aiompi.comm.factory import make_communicator
from aiompi.errors import InvalidArgumentError
from aiompi.face.native.talking import SharedDict
from aiompi.objects import Codec
from aiompi.talk.calls import Calls
from aiompi.talk.exchange import Exchange, ExchangeOfWorld
from aiompi.talk.shared_dict import Dicts
from aiompi.talk.topics import Subscription, Topics

#: context of the communicator of talk, below the contexts of agreements. No constructor of communicators reaches this
#: number.
_CONTEXT: Final = 2**61


class Talk:
    """Calls, publications and dicts of a member, in one world or over many.

    Args:
        exchange: of the member.
        codec: makes messages.
    """

    def __init__(self, exchange: Exchange, codec: Codec) -> None:
        self.exchange = exchange
        self.calls = Calls(exchange, codec)
        self.topics = Topics(exchange, codec)
        self.dicts = Dicts(exchange, codec)

    def call(self, rank: int, name: str, args: tuple[Any, ...], timeout: float | None) -> Awaitable[Any]:
        return self.calls.call(rank, name, args, timeout)

    def handle(self, function: Callable[..., Any]) -> None:
        self.calls.handle(function)

    def publish(self, topic: str, obj: object, confirm: bool) -> Awaitable[None]:
        return self.topics.publish(topic, obj, confirm)

    def subscribe(self, topic: str, bound: int, when_full: str) -> Subscription:
        return self.topics.subscribe(topic, bound, when_full)

    def shared_dict(self, name: str) -> SharedDict:
        if type(name) is not str:
            raise InvalidArgumentError(f"shared_dict({name!r:.100}): expected the name of the dict, a str")
        return SharedDict(self.dicts, name)


def own_communicator(world: Communicator) -> Communicator:
    """Return a communicator of the members of a world, for talk alone. No other member takes part."""
    return make_communicator(world.engine, world.group, _CONTEXT, f"talk on {world.label}", ids=world.ids)


def of_world(world: Communicator, codec: Codec) -> Talk:
    """Return the `Talk` of a world. The first call for a world makes and starts the `Talk`."""
    talk = world.attached.of(Talk)
    if talk is None:
        talk = world.attached.put(Talk(ExchangeOfWorld(), codec))
        talk.dicts.adopt(0, range(world.size), world.rank, None)
        talk.exchange.attach(own_communicator(world), range(world.size), [None] * world.size, 0)
    return talk
