"""Locks for programs with threads; only drivers know threads."""

from threading import Lock as Lock
