"""`MPI.pickle`: with it, programs of mpi4py serialise objects, and choose the serializer for messages."""

from __future__ import annotations

import pickle as _pickle
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from aiompi.face.blocking.process import process
from aiompi.objects.codec import Codec, Segment, is_pickle
from aiompi.typing import Buffer, SupportsBuffer

if TYPE_CHECKING:
    from aiompi.datatype.buffer.memory import buffer

__all__ = ["Pickle", "pickle"]

_THRESHOLD: Final = 256 * 2**10  # bytes


class Pickle:
    """A way to convert objects to bytes, and bytes to objects.

    Args:
        dumps: function that makes bytes from an object; by default `pickle.dumps`. The function is called with the
            object and, if there is a protocol, with the protocol.
        loads: function that makes an object from bytes; by default `pickle.loads`, extended to read the messages of
            `Comm.send`.
        protocol: protocol that `dumps` gets. None: `pickle.dumps` gets the highest protocol, any other function gets no
            protocol. Negative: the highest protocol.
        threshold: number of bytes from which `dumps_oob` returns a buffer separately; None: 256 KiB.
    """

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[[Any], Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        self._dumps = dumps or _pickle.dumps
        self._loads = loads or _loads
        self.PROTOCOL = protocol
        self.THRESHOLD = threshold
        if globals().get("pickle") is self:
            process.serialise(None if dumps is None and loads is None else Serializer(self))

    @property
    def PROTOCOL(self) -> int | None:
        """Protocol that `dumps` passes to its function; None if `dumps` passes no protocol."""
        return self._protocol

    @PROTOCOL.setter
    def PROTOCOL(self, protocol: int | None) -> None:
        if protocol is None and self._dumps is _pickle.dumps:
            protocol = _pickle.HIGHEST_PROTOCOL
        self._protocol = protocol

    @property
    def THRESHOLD(self) -> int:
        """Bytes from which `dumps_oob` leaves buffers out."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._threshold = _THRESHOLD if threshold is None else threshold

    def dumps(self, obj: object) -> bytes:
        """Return the bytes of an object."""
        return self._dumps(obj) if self._protocol is None else self._dumps(obj, self._protocol)

    def loads(self, data: Buffer) -> Any:
        """Return the object of some bytes."""
        return self._loads(data)

    def dumps_oob(self, obj: object) -> tuple[bytes, list[buffer]]:
        """Return the bytes of an object without its large buffers, and these buffers."""
        from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

        buffers: list[buffer] = []

        def in_band(part: _pickle.PickleBuffer) -> bool:
            with part.raw() as view:
                if view.nbytes < self._threshold:
                    return True
            buffers.append(buffer(part))
            return False

        protocol = -1 if self._protocol is None or self._protocol < 0 else max(self._protocol, 5)
        return _pickle.dumps(obj, protocol, buffer_callback=in_band), buffers

    def loads_oob(self, data: SupportsBuffer, buffers: Iterable[SupportsBuffer]) -> Any:
        """Return the object of its bytes and buffers."""
        return _pickle.loads(data, buffers=buffers)


def _loads(data: Any) -> Any:
    """Return the object of a pickle, or of a message that was received as memory."""
    with memoryview(data) as view:
        message = view.cast("B") if view.nbytes else b""
        return _pickle.loads(message) if is_pickle(message) else Codec().loads(bytes(message))


class Serializer:
    """Encodes and decodes the messages of the blocking face with functions of the program, instead of the codec."""

    def __init__(self, way: Pickle) -> None:
        self._way = way

    def dumps(self, obj: object) -> tuple[list[Segment], int]:
        """Return the message of an object, and its length."""
        data = self._way.dumps(obj)
        return [data], len(data)

    def loads(self, message: bytes | bytearray | memoryview) -> Any:
        """Return the object of a message; None if the message has no bytes."""
        return self._way.loads(message) if len(message) else None


#: Its `__init__` chooses the serializer of messages from then on; all ranks must call it with the same arguments.
pickle: Final = Pickle()
