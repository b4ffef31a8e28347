"""SlotExchanges in which a rank has posted, and others have not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiompi.engine import SlotExchange
from aiompi.engine.shm_sync import SlotExchanges


class Vote(SlotExchange):
    """A round of which all have posted once it is looked at for the last time before a sleep."""

    __slots__ = ("present", "watched")

    def __init__(self) -> None:
        engine: Any = SimpleNamespace()
        super().__init__(engine)
        self.present = self.watched = False

    def ready(self) -> bool:
        return self.present

    def absent(self) -> list[int]:
        return [] if self.present else [1]

    def watch(self) -> bool:
        self.present = self.watched = True
        return False

    def end(self) -> None:
        self.complete([])


def test_nobody_waits_for_a_round_that_has_ended_before_the_sleep() -> None:
    driver: Any = SimpleNamespace(linger=lambda poller, first: False)
    vote = Vote()
    SlotExchanges(driver).add(vote)
    assert vote.watched
    assert vote.done(), "nobody would be woken for it any more"


def test_who_looks_again_and_again_asks_not_to_be_woken() -> None:
    pollers: list[object] = []
    driver: Any = SimpleNamespace(linger=lambda poller, first: pollers.append(poller) or True)
    rounds, vote = SlotExchanges(driver), Vote()
    rounds.add(vote)
    assert pollers == [rounds]
    assert not vote.watched
    assert not rounds.rest(), "there was something to do"
    assert vote.done()
