"""Handles of requests, as programs of MPI hold them, and the most frequent calls with many handles."""

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
        None if the caller must check the requests one by one. The pure form always returns None: only the native form
            knows requests that need no check.
    """
    return None


def drop_done(pending: list[Any]) -> None:
    """Remove succeeded operations from the end of a list, up to the first that the caller must check."""


def take_all(requests: object, kind: type[RequestHandle]) -> bool:
    """Make all handles of a list null and return True; return False if the caller must check one of them."""
    return False
