"""The part of a codec for small plain objects."""

from __future__ import annotations

from typing import Any


class PlainCodec:
    """The base of a codec, which codes small plain objects in the native form; see `aiompi.objects.Codec`.

    The native form packs and unpacks messages of at most 1,024 bytes that consist of None, bool, int, float, str and
    bytes objects, and of lists and dicts of them. `_dumps` and `_loads` handle all other objects and messages, and
    report the errors.

    Attributes:
        _out_of_band: bytes; payloads of at least this size are sent without a copy.
    """

    __slots__ = ("_out_of_band",)

    _out_of_band: int

    def dumps(self, obj: object) -> tuple[list[bytes | memoryview], int]:
        """Return the message of an object.

        Args:
            obj: the object, which must not change while the segments are in use: payloads alias its memory.

        Returns:
            The segments to send in order, and their total length in bytes. A small object is a single bytes object.

        Raises:
            InvalidTypeError: the object cannot be pickled, or pickling is required and switched off.
        """
        return self._dumps(obj)

    def loads(self, message: bytes | bytearray | memoryview) -> Any:
        """Return the object of a message.

        Args:
            message: contiguous unsigned bytes. The object keeps these bytes: arrays that were sent out of band are
                views of the bytes, and are writable if the bytes are. A plain pickle is accepted, too, because a
                program may have sent one as a buffer. The object of an empty message is None.

        Raises:
            RemoteProtocolError: the message is malformed.
            InvalidTypeError: the message is pickled, and pickling is off.
            OtherError: the message is a pickle that cannot be read here; the cause says why.
            OSError: required modules cannot be imported, because there are too few file descriptors.
        """
        return self._loads(message)

    def __call__(self, message: bytes | bytearray | memoryview) -> Any:
        """Do what `loads` does."""
        return self.loads(message)

    def _dumps(self, obj: object) -> tuple[list[bytes | memoryview], int]:
        """Return what `dumps` returns, for any object."""
        raise NotImplementedError

    def _loads(self, message: bytes | bytearray | memoryview) -> Any:
        """Return what `loads` returns, for any message."""
        raise NotImplementedError
