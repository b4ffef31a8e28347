"""Constants that are passed in place of a buffer (section 2.5.4). As in C, they are addresses."""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn, Self


class Constant(int):
    """A special address. It equals its number, but arithmetic with it is an error."""

    __slots__ = ()

    _name: ClassVar[str]
    _value: ClassVar[int]

    def __new__(cls) -> Self:
        return super().__new__(cls, cls._value)

    def _refuse(self, other: object) -> NoReturn:
        raise TypeError(f"{self._name} stands for a buffer: use Aint_add and Aint_diff for address arithmetic")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


class InPlace(Constant):
    """Type of `IN_PLACE`, which replaces a send buffer that is the receive buffer."""

    __slots__ = ()

    _name, _value = "IN_PLACE", -1


class BufferAutomatic(Constant):
    """Type of `BUFFER_AUTOMATIC`, which selects memory that grows with the messages (MPI-4.1)."""

    __slots__ = ()

    _name, _value = "BUFFER_AUTOMATIC", -2


IN_PLACE: Final = InPlace()
BUFFER_AUTOMATIC: Final = BufferAutomatic()
