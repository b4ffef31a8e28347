"""Handles of requests, as programs of MPI hold them, and what programs do most with many of them."""

from __future__ import annotations

from typing import Any


class RequestHandle:
    """A handle of an operation, which is null once the operation has been completed."""

    __slots__ = ("_core",)

    _core: Any


def pending_of(requests: object, kind: type[RequestHandle]) -> list[Any] | None:
    """Return the operations of a list that are pending, the last one first.

    Args:
        requests: any object.
        kind: class of the handles.

    Returns:
        None if they are to be checked one by one: of the two forms only the native one knows some that need no check.
    """
    return None


def drop_done(pending: list[Any]) -> None:
    """Remove operations at the end of a list that have succeeded, as far as nothing is to be checked for them."""


def take_all(requests: object, kind: type[RequestHandle]) -> bool:
    """Make all handles of a list null, if nothing is to be checked for them; return False otherwise."""
    return False
