"""`MPI.pickle`: how programs of mpi4py serialise objects themselves, or choose how messages are (not standard)."""

from __future__ import annotations

import pickle as _pickle
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiompi.datatype.buffer.memory import buffer
from aiompi.face.blocking.process import process
from aiompi.objects.codec import Segment

__all__ = ["Pickle", "pickle"]


class Pickle:
    """A way to make bytes of objects, and objects of bytes.

    Args:
        dumps: called with the object, and the protocol if there is one; pickle.dumps by default.
        loads: called with the bytes; pickle.loads by default.
        protocol: of pickle; None: the highest. Negative: the highest, too.
        threshold: bytes from which `dumps_oob` leaves buffers out.

    Attributes:
        PROTOCOL, THRESHOLD: what was given.
    """

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[[Any], Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        self.PROTOCOL = protocol
        if (protocol is None and dumps is None) or (protocol is not None and protocol < 0):
            self.PROTOCOL = _pickle.HIGHEST_PROTOCOL
        self.THRESHOLD = 256 * 2**10 if threshold is None else threshold
        self._dumps = dumps or _pickle.dumps
        self._loads = loads or _pickle.loads
        if globals().get("pickle") is self:
            process.serialise(None if dumps is None and loads is None else Serializer(self))

    def dumps(self, obj: Any) -> bytes:
        """The bytes of an object."""
        return self._dumps(obj) if self.PROTOCOL is None else self._dumps(obj, self.PROTOCOL)

    def loads(self, data: Any) -> Any:
        """The object of some bytes."""
        return self._loads(data)

    def dumps_oob(self, obj: Any) -> tuple[bytes, list[buffer]]:
        """The bytes of an object without its large buffers, and these."""
        buffers: list[buffer] = []

        def in_band(part: _pickle.PickleBuffer) -> bool:
            with part.raw() as view:
                if view.nbytes < self.THRESHOLD:
                    return True
            buffers.append(buffer(part))
            return False

        protocol = _pickle.HIGHEST_PROTOCOL if self.PROTOCOL is None else max(self.PROTOCOL, 5)
        return _pickle.dumps(obj, protocol, buffer_callback=in_band), buffers

    def loads_oob(self, data: Any, buffers: Iterable[Any]) -> Any:
        """The object of its bytes and buffers."""
        return _pickle.loads(data, buffers=buffers)


class Serializer:
    """Makes the messages of the blocking face by functions of the program, instead of the codec."""

    def __init__(self, way: Pickle) -> None:
        self._way = way

    def dumps(self, obj: object) -> tuple[list[Segment], int]:
        """The message of an object, and its length."""
        data = self._way.dumps(obj)
        return [data], len(data)

    def loads(self, message: bytes | bytearray | memoryview) -> Any:
        """The object of a message."""
        return self._way.loads(message)


#: Its `__init__` chooses how the messages of objects are made from then on, and must be called alike by all ranks.
pickle: Final = Pickle()
