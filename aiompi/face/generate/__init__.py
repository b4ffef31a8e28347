"""Writes what follows from the asyncio face by a rule: see `__main__`. The wheel does not have it."""
