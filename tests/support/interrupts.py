"""Signal handlers that raise, or make calls, at a certain point: a profile function is called where they would be."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, NoReturn, TypeVar

import pytest

from aiompi import core

T = TypeVar("T")

_TESTS = os.path.dirname(os.path.dirname(__file__))


class Late(Exception):
    """What a handler raises."""


@contextlib.contextmanager
def interrupted(when: Callable[[], bool]) -> Iterator[None]:
    """A block in which a handler raises as soon as a function begins, or one that is built in has returned, and a
    condition holds: that is where Python runs handlers.

    Not in what the tests themselves define or call: nothing of that is compiled.
    """

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_return") and not frame.f_code.co_filename.startswith(_TESTS) and when():
            sys.setprofile(None)
            raise Late

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what is raised in a callback of the collector, or in a finalizer, is lost
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


@contextlib.contextmanager
def called(last: int, call: Callable[[], object]) -> Iterator[list[object]]:
    """A block in which a handler makes a call after so many steps; what it has made is in the list then."""
    step, made = itertools.count(), list[object]()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_return") and next(step) == last:
            sys.setprofile(None)
            made.append(call())
            sys.setprofile(profile)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield made
    finally:
        sys.setprofile(before)


def everywhere(make: Callable[[], AbstractContextManager[T]], call: Callable[[T], object]) -> Iterator[T]:
    """What is made, again and again, for a call that was interrupted each time, one step later than the time before."""
    for last in itertools.count():
        with make() as made:
            step, inside = -1, False

            def due() -> bool:
                nonlocal step
                step += inside
                return inside and step == last

            try:
                with interrupted(due):
                    inside = True
                    call(made)
                    inside = False
            except Late:
                yield made
            else:
                if not last:
                    nothing_interrupted()
                return


def at_line(number: int, call: Callable[[], object], handler: Callable[[], object]) -> bool:
    """Call a function, and a handler before its line of this number, from 0; return False if it has fewer lines."""
    line, interrupted = itertools.count(), False

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal interrupted
        if event == "line" and next(line) == number:
            interrupted = True
            sys.settrace(None)
            handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    if not number and not interrupted:
        nothing_interrupted()
    return interrupted


def nothing_interrupted() -> NoReturn:
    """End a test in which no handler could run: skip it if that is because all of it is in the native core."""
    if core.form == "pure":
        pytest.fail("no handler could run in the call, so that nothing was tested")
    pytest.skip("what is called is in the native core, where Python runs no handlers")
