"""Writes the files that follow from the asyncio face by rules: see `__main__`. The wheel does not have this package."""
