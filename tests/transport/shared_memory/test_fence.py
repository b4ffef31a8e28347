"""What a fence is made of lasts, wherever it runs, and whatever interrupts it.

That no load passes it cannot be tested: it takes so long to call anything that none does.
"""

from __future__ import annotations

import os
import random
import signal
from itertools import count
from pathlib import Path

import pytest

from aiompi.transport.shared_memory import fence
from aiompi.transport.shared_memory.fence import Fenced


@pytest.fixture(params=["semaphore", "lock"])
def fenced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fenced:
    if request.param == "lock":
        forbid_semaphores(monkeypatch)
    monkeypatch.setattr(fence, "_newest", None)
    return Fenced()


def forbid_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("_multiprocessing.SemLock", refuse)


def test_full_semaphore_makes_way_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "_MOST", 3)
    monkeypatch.setattr(fence, "_newest", None)
    one, another = Fenced(), Fenced()
    first = one._semaphore
    for _ in range(3):
        one.fence()
    assert one._semaphore is another._semaphore is first
    another.fence()
    one.fence()
    assert one._semaphore is another._semaphore is not first
    for _ in range(10):
        one.fence()
    assert one._semaphore._get_value() == 3
    another.fence()  # its semaphore is full, and the newest one, too
    assert another._semaphore._get_value() == 1


def test_without_semaphores_there_is_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_semaphores(monkeypatch)
    monkeypatch.setattr(fence, "_newest", None)
    fenced = Fenced()
    assert isinstance(fenced._semaphore, fence._Lock)
    fenced.fence()


def test_signal_handler_may_raise(fenced: Fenced) -> None:
    """It is heard, and leaves nothing behind: a lock that stays locked would stop this rank for ever."""
    before = fenced._semaphore

    class Interrupted(ValueError):  # as a full semaphore raises
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(300):
            with pytest.raises(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 100e-6))
                for _ in range(100):
                    fenced.fence()
                for _ in count():
                    pass
            if isinstance(fenced._semaphore, fence._Lock):
                assert not fenced._semaphore._lock.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert fenced._semaphore is before


def test_semaphore_leaves_no_name_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    name = random.randbytes(8)
    monkeypatch.setattr(os, "urandom", lambda _: name)
    monkeypatch.setattr(fence, "_newest", None)
    assert not isinstance(Fenced()._semaphore, fence._Lock)
    assert not [path for path in Path("/dev/shm").iterdir() if name.hex() in path.name]
