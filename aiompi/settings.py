"""Settings: the AIOMPI_* environment variables, and `aiompi.rc` for what a program sets itself.

A value given in the program wins over the environment, which wins over the default. Settings are read once,
when a rank starts.
"""

from __future__ import annotations

import dataclasses
import math
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aiompi import arguments
from aiompi.errors import InvalidArgumentError, LocalProtocolError

MAX_WINDOW: Final = 2**31  # credit is returned in 32 bits
#: bytes of a ring
MIN_RING: Final = 2**12
MAX_RING: Final = 2**30

TRANSPORTS: Final = ("loopback", "shared_memory", "unix", "tcp")
#: by what `Init_thread` calls them: THREAD_SINGLE is 0
THREAD_LEVELS: Final = ("single", "funneled", "serialized", "multiple")

_PREFIX: Final = "AIOMPI_"
#: variables that are no settings: by them a launcher tells a rank about its job
_PLACE: Final = frozenset({"control", "key", "key_file", "rank", "size"})
#: from which likeness on a name is a setting's, misspelt; short ones are alike by chance
_ALIKE: Final = 0.8
_SHORT: Final = 4

_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What can be set. Environment variable: AIOMPI_ and the upper-case name of the field.

    Attributes:
        eager_limit: bytes; messages up to this size are sent without asking the receiver.
        shm_eager_limit: bytes; messages up to this size are sent without asking a receiver that shares memory with the
            sender. They lie there until the receiver takes them. 0: none that is longer than eager_limit.
        eager_window: bytes of eager messages per peer that may wait at a receiver that does not receive.
        pickle: whether objects that msgpack cannot express may be pickled, and pickles be read.
        transports: names of transports that may be used, comma-separated in the environment; empty means all, TCP only
            if ranks may be on other machines. Without shared_memory among them, ranks share no memory with their IMPI
            host either.
        ring_size: bytes of memory that two ranks of one host share per direction, a power of two from 4 KiB to 1 GiB.
        single_copy: whether long messages between ranks of one host are copied once, straight from memory to memory,
            where the kernel lets ranks do that: those of more than 2 MiB.
        spin: seconds for which a waiting rank looks for messages in shared memory before it sleeps, 0: never; None, the
            default: 500e-6, but never with more ranks on the host than its control group has time for. With more ranks
            than cores whoever else wants the core gets it at once.
        bind: address that TCP listeners bind to; empty means loopback, and in a job of several IMPI clients the
            address of this machine that the IMPI server sees.
        connect_timeout: seconds to wait for a connection, and for the proof of the key of who has connected; a rank
            that has been connected to may take longer to answer, because it computes.
        coll: algorithm by collective, in the environment as "bcast=binomial,reduce=linear".
        impi_native: whether IMPI clients that are all aiompi connect their ranks with each other; otherwise everything
            between them is IMPI traffic between their hosts.
        impi_any_source: whether hosts of other IMPI clients may connect from other addresses than they have published.
        impi_start_timeout: seconds after which the IMPI server fails a job of which all clients are there, and one
            sends none of the standard labels that the others wait for, and at most twice as many; and after which a
            client fails it to which nothing comes of a start that has begun. 0 for never.
        impi_datalen: bytes of data that this client takes in one IMPI packet; the smallest of all clients counts. Each
            rank of another client may have impi_hiwater of them waiting here for a rank that does not receive.
        impi_tagub: largest tag in a job with an IMPI server, 32767 or more; the smallest of all clients counts.
        impi_ackmark: IMPI packets after which they are acknowledged; the smallest of all hosts counts.
        impi_hiwater: IMPI packets that may be unacknowledged, not fewer; the smallest of all hosts counts.
        impi_xsize: bytes from which collectives between IMPI clients take their long form, -1 for 1024; all clients
            must agree.
        impi_maxlinear: number of clients up to which such collectives are linear, -1 for 4; all clients must agree.
        impi_native_order: ranks of IMPI clients with which user data travels as it lies in the memory of this machine
            instead of in external32, as historic LAM/MPI sends it between machines of one kind.
        impi_reduce_point_to_point: ranks of IMPI clients with which the messages of Reduce are in the context of
            point-to-point messages, as those of historic LAM/MPI are.
        impi_leaders_collective: whether the leaders of Intercomm_create meet in the collective context of the peer
            communicator, if it spans IMPI clients, or else in that of point-to-point messages: IMPI does not say.
        debug: seconds after which a rank that waits in a call tells what for; 0 for never.
        thread_level: what the threads of a program of the blocking face may do, one of THREAD_LEVELS.
    """

    eager_limit: int = 256 * 2**10
    shm_eager_limit: int = 2 * 2**20
    eager_window: int = 4 * 2**20
    pickle: bool = True
    transports: tuple[str, ...] = ()
    ring_size: int = 2**20
    single_copy: bool = True
    spin: float | None = None
    bind: str = ""
    connect_timeout: float = 30.0
    coll: Mapping[str, str] = dataclasses.field(default_factory=dict)
    impi_native: bool = True
    impi_any_source: bool = False
    impi_start_timeout: float = 300.0
    impi_datalen: int = 2 * 2**20
    impi_tagub: int = 2**31 - 1
    impi_ackmark: int = 10
    impi_hiwater: int = 20
    impi_xsize: int = -1
    impi_maxlinear: int = -1
    impi_native_order: tuple[str, ...] = ()
    impi_reduce_point_to_point: tuple[str, ...] = ()
    impi_leaders_collective: bool = True
    debug: float = 0.0
    thread_level: str = "funneled"

    def __post_init__(self) -> None:
        limits = {name: getattr(self, name) for name in ("eager_limit", "shm_eager_limit", "eager_window")}
        if min(limits.values()) < 0 or self.eager_window > MAX_WINDOW:
            given = ", ".join(f"{name} {value}" for name, value in limits.items())
            raise InvalidArgumentError(
                f"limits of messages are byte counts: they cannot be negative, and the window at most {MAX_WINDOW}; "
                f"given are {given}"
            )
        unknown = [name for name in self.transports if name not in TRANSPORTS]
        if unknown:
            raise InvalidArgumentError(
                f"transports lists names of transports and cannot have {', '.join(unknown)}: there are "
                f"{', '.join(TRANSPORTS)}"
            )
        if not MIN_RING <= self.ring_size <= MAX_RING or self.ring_size & (self.ring_size - 1):
            raise InvalidArgumentError(
                f"ring_size is a number of bytes, a power of two from 4 KiB to 1 GiB, and cannot be {self.ring_size}"
            )
        if self.spin is not None and not 0 <= self.spin < math.inf:
            raise InvalidArgumentError(f"spin is a time in seconds and cannot be {self.spin}")
        if not 0 < self.connect_timeout < math.inf:
            raise InvalidArgumentError(f"connect_timeout is a time in seconds and cannot be {self.connect_timeout}")
        if not 0 <= self.impi_start_timeout < math.inf:
            raise InvalidArgumentError(
                f"impi_start_timeout is a time in seconds, 0 for never, and cannot be {self.impi_start_timeout}"
            )
        for name in ("impi_native_order", "impi_reduce_point_to_point"):
            clients = getattr(self, name)
            if not all(client.isdecimal() for client in clients):
                raise InvalidArgumentError(f"{name} lists ranks of IMPI clients and cannot be {clients}")
        if not 0 <= self.debug < math.inf:
            raise InvalidArgumentError(f"debug is a time in seconds, 0 for never, and cannot be {self.debug}")
        if self.thread_level not in THREAD_LEVELS:
            raise InvalidArgumentError(
                f"thread_level cannot be {self.thread_level!r}: it is one of {', '.join(THREAD_LEVELS)}"
            )


def load(environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """Settings from the environment and from `rc`.

    Args:
        environ: where to look for AIOMPI_* variables.
        overrides: values that win over both.

    Raises:
        InvalidArgumentError: a value cannot be read, a variable is named almost as a setting is, or an override has no
            such name.
    """
    values: dict[str, Any] = {}
    for variable, text in environ.items():
        if variable.startswith(_PREFIX):
            name = variable.removeprefix(_PREFIX).lower()
            if name in _DEFAULTS and variable.isupper():
                values[name] = _read(name, text, f"{variable}={text!r}")
            elif name not in _PLACE and len(name) > _SHORT:
                _refuse_misspelt(variable, name)
    values.update(rc._values)
    values.update(overrides)
    unknown = values.keys() - _DEFAULTS.keys()
    if unknown:
        raise InvalidArgumentError(f"no such setting: {', '.join(sorted(unknown))}")
    return Settings(**values)


class RC:
    """Settings made by the program before its first use of a communicator, as in `aiompi.rc.pickle = False`."""

    _values: dict[str, Any]
    _readers: weakref.WeakSet[Any]

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_readers", weakref.WeakSet())

    def read_by(self, reader: object) -> None:
        """From now on until `forgotten_by` nothing can be set any more: whoever has read the values has them."""
        self._readers.add(reader)

    def forgotten_by(self, reader: object) -> None:
        """Undo `read_by`."""
        self._readers.discard(reader)

    def __call__(self, **values: Any) -> None:
        """Set several values at once.

        Raises:
            InvalidArgumentError: there is no such setting, or a text cannot be read.
            TypeError: a value is of another type.
            LocalProtocolError: it is too late.
        """
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _DEFAULTS:
            raise InvalidArgumentError(f"no such setting: {name}; there are {', '.join(_DEFAULTS)}")
        if self._readers:
            raise LocalProtocolError(
                f"aiompi.rc.{name} is set too late: this process is a rank already, with the settings as they were. "
                "Set it before the first use of a communicator, in the asyncio face before aiompi.run or aiompi.init"
            )
        if isinstance(value, str):
            self._values[name] = _read(name, value, f"aiompi.rc.{name} = {value!r}")
        else:
            self._values[name] = _KINDS[type(_DEFAULTS[name])].take(value, f"aiompi.rc.{name}")

    def __getattr__(self, name: str) -> Any:
        if name not in _DEFAULTS:
            raise AttributeError(name)
        return self._values.get(name, _DEFAULTS[name])


def _refuse_misspelt(variable: str, name: str) -> None:
    """Raise if the name is almost a setting's, which would go unnoticed; other names of the prefix are not ours."""
    import difflib  # takes 2 ms, which nobody who spells well should pay

    for meant in difflib.get_close_matches(name, _DEFAULTS, 1, _ALIKE):
        raise InvalidArgumentError(f"{variable} is no setting; is {_PREFIX}{meant.upper()} meant?")


def _read(name: str, text: str, given: str) -> Any:
    """The value that a text means, the default if it is empty; `given` is what messages call it."""
    default = _DEFAULTS[name]
    try:
        return _KINDS[type(default)].read(text) if text.strip() else default
    except ValueError as error:
        raise InvalidArgumentError(f"{given} cannot be read: {error}") from None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pair(text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split("=")]
    if len(parts) != 2:
        raise ValueError(f"{text!r} is no NAME=VALUE")
    return parts[0], parts[1]


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError("expected 1 or 0")


def _size(text: str) -> int:
    digits = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = digits[-1:] if digits[-1:] in _UNITS else ""
    return int(digits.removesuffix(unit)) * _UNITS[unit]


def _flag(value: object, name: str) -> bool:
    return arguments.instance(value, bool, name, "True or False")


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: expected a number") from None


def _number_or_none(value: object, name: str) -> float | None:
    return None if value is None else _number(value, name)


def _texts(values: object, name: str) -> tuple[str, ...]:
    several = arguments.several(values, name, "strings")
    return tuple(arguments.text(value, f"{name}[{i}]") for i, value in enumerate(several))


def _texts_by_name(values: object, name: str) -> dict[str, str]:
    given = arguments.instance(values, dict, name, "a dict, such as {'bcast': 'binomial'}")
    return {arguments.text(key, f"a key of {name}"): arguments.text(given[key], f"{name}[{key!r}]") for key in given}


class _Kind(NamedTuple):
    """What settings have in common whose defaults are of one type.

    Attributes:
        read: the value that a text means; a ValueError says what is wrong with it.
        take: the value for one of the program, given with its name; a TypeError says what is expected.
    """

    read: Callable[[str], Any]
    take: Callable[[Any, str], Any]


_KINDS: Final[dict[type, _Kind]] = {
    bool: _Kind(_boolean, _flag),
    int: _Kind(_size, arguments.integer),
    float: _Kind(float, _number),
    type(None): _Kind(float, _number_or_none),
    str: _Kind(str, arguments.text),
    tuple: _Kind(lambda text: tuple(_parts(text)), _texts),
    dict: _Kind(lambda text: dict(map(_pair, _parts(text))), _texts_by_name),
}
_DEFAULTS: Final[dict[str, Any]] = {
    field.name: getattr(Settings(), field.name) for field in dataclasses.fields(Settings)
}
rc: Final = RC()
