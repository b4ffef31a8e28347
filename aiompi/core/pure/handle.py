"""Handles of requests, as programs of MPI hold them, and the most frequent calls with many handles."""

from __future__ import annotations

from typing import Any


class RequestHandle:
    """A request handle of MPI, which becomes null when a call completes its operation."""

    __slots__ = ("_core",)

    _core: Any


def pending_of(requests: object, kind: type[RequestHandle]) -> list[Any] | None:
    """Return the operations of a list that are pending, the last one first.

    Args:
        requests: any object.
        kind: class of the handles.

    Returns:
        None if the caller must check the requests one by one. The pure form always returns None. Only the native form
        can see that the requests have no results, but only succeed or fail.
    """
    return None


def drop_done(pending: list[Any]) -> None:
    """Remove operations from the end of a list as long as the last one has succeeded; the caller checks the rest."""


def take_all(requests: object, kind: type[RequestHandle]) -> bool:
    """Make the handles null and return True, or return False if the caller must handle them one by one."""
    return False
