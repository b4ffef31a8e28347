"""Locks for programs with threads, which only drivers know."""

from threading import Lock as Lock
