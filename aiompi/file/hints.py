"""Hints of files (MPI-4.1, section 14.2.8), with the names of the standard and of ROMIO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: bytes that an aggregator collects before it writes or reads
CB_BUFFER_SIZE: Final = 16 * 2**20
AUTOMATIC: Final = "automatic"
#: most digits of a number that has 64 bits for sure
_DIGITS: Final = 18
#: values of romio_cb_write and romio_cb_read
WAYS: Final = ("enable", "disable", AUTOMATIC)


class Hints:
    """The hints of a program about a file. Unknown hints and invalid values are ignored.

    Attributes:
        cb_nodes: number of ranks that move the data of all ranks; 0 for two ranks on each host.
        cb_buffer_size: bytes that each of these ranks collects at a time.
        cb_write, cb_read: "enable", "disable" or "automatic": whether collective writes and reads move data through
            these ranks.
    """

    __slots__ = ("cb_buffer_size", "cb_nodes", "cb_read", "cb_write")

    def __init__(self) -> None:
        self.cb_nodes = 0
        self.cb_buffer_size = CB_BUFFER_SIZE
        self.cb_write = self.cb_read = AUTOMATIC

    def update(self, given: Mapping[str, str]) -> None:
        """Take the known hints from others."""
        self.cb_nodes = _number(given.get("cb_nodes"), self.cb_nodes)
        self.cb_buffer_size = _number(given.get("cb_buffer_size"), self.cb_buffer_size)
        both = {"true": "enable", "false": "disable"}.get(given.get("collective_buffering", ""), "")
        for name in ("cb_write", "cb_read"):
            way = given.get(f"romio_{name}", both)
            if way in WAYS:
                setattr(self, name, way)

    def items(self, aggregators: int) -> dict[str, str]:
        """Return the hints in use (MPI_File_get_info).

        Args:
            aggregators: number of ranks that move the data of all.
        """
        return {
            "cb_nodes": str(aggregators),
            "cb_buffer_size": str(self.cb_buffer_size),
            "romio_cb_write": self.cb_write,
            "romio_cb_read": self.cb_read,
        }


def _number(text: str | None, default: int) -> int:
    """Return the value of a hint if it is a positive number of at most 18 digits, else the default."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        return default
    return int(text) or default
