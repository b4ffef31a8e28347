"""Many short cases in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def cases(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but as one test, with the same fixtures in all cases. The error names its case.

    For cases that take less time than pytest needs to collect, run and report a test.
    """
    several = isinstance(names, tuple)
    wanted = names if isinstance(names, tuple) else (names,)
    rows = [tuple(value) if several else (value,) for value in values]
    assert rows

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for row in rows:
                case = dict(zip(wanted, row, strict=True))
                try:
                    test(**fixtures, **case)
                except pytest.skip.Exception as skipped:
                    raise AssertionError(f"the case {case} would skip those after it") from skipped
                except BaseException as error:
                    error.add_note(f"in the case {case}")
                    raise

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in wanted]
        assert len(kept) == len(signature.parameters) - len(wanted), "the test does not take all of it"
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
