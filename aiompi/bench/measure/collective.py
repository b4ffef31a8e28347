"""The collectives in the blocking face; run by the launcher on any number of ranks."""

from __future__ import annotations

from aiompi.bench.measure import blocking, calls

if __name__ == "__main__":
    blocking.main(calls.WORKS)
