"""`look`: all pollers in turn, and the one that has found something last in the next round."""

from __future__ import annotations

import time

import pytest

from aiompi import core
from aiompi.core.pure import polling as pure
from support.pollers import Asked

FORMS = [pure.look, *([core.look] if core.form == "native" else [])]
ONCE = range(1)


@pytest.mark.parametrize("look", FORMS)
def test_the_first_that_finds_something_is_looked_at_last(look: type) -> None:
    pollers = [Asked(), Asked(True), Asked(True)]
    first, second, third = pollers
    assert look(pollers, ONCE, 0.0)
    assert pollers == [first, third, second]
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)
    assert look(pollers, ONCE, 0.0)
    assert pollers == [first, second, third]
    assert not look(pollers, ONCE, 0.0)


@pytest.mark.parametrize("look", FORMS)
def test_pollers_that_are_not_native_look_so_often_and_no_longer(look: type) -> None:
    pollers = [Asked(False, False, True), Asked()]
    assert look(pollers, range(3), 60.0)
    assert pollers[1].asked == 3
    before = time.monotonic()
    assert not look(pollers, range(3), 60.0)
    assert time.monotonic() - before < 60.0
    assert not look([], ONCE, 60.0)


@pytest.mark.parametrize("look", FORMS)
def test_a_poller_may_leave_while_it_is_looked_at(look: type) -> None:
    leaving = Asked(True)
    pollers = [leaving, Asked()]
    leaving.then = lambda _: pollers.remove(leaving)
    assert look(pollers, ONCE, 0.0)
    assert leaving not in pollers
    failing = Asked(then=lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        look([failing, *pollers], ONCE, 0.0)
