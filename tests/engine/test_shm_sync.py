"""`SlotExchanges`: the exchanges in which a rank has filled its slot, and others have not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aiompi.engine import SlotExchange
from aiompi.engine.shm_sync import SlotExchanges


class Vote(SlotExchange):
    """An exchange that is found complete at the last look before a sleep."""

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


@pytest.mark.pure
def test_an_exchange_that_ends_before_the_sleep_is_completed() -> None:
    driver: Any = SimpleNamespace(start_polling=lambda poller, first: False)
    vote = Vote()
    SlotExchanges(driver).add(vote)
    assert vote.watched
    assert vote.done(), "no rank would wake this one for it any more"


@pytest.mark.pure
def test_exchanges_that_are_polled_do_not_ask_to_be_woken() -> None:
    pollers: list[object] = []
    driver: Any = SimpleNamespace(start_polling=lambda poller, first: pollers.append(poller) or True)
    rounds, vote = SlotExchanges(driver), Vote()
    rounds.add(vote)
    assert pollers == [rounds]
    assert not vote.watched
    assert not rounds.rest(), "there was something to do"
    assert vote.done()
