"""Settings: the AIOMPI_* environment variables, and `aiompi.rc` for values that a program sets itself.

A value set in the program overrides the environment, which overrides the default. Each rank reads the settings once,
when it starts. A new setting is a field of `Settings`, a line of its docstring, and a row in
docs/pages/reference/settings.md.
"""

from __future__ import annotations

import dataclasses
import math
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aiompi.base import arguments
from aiompi.errors import InvalidArgumentError, LocalProtocolError

MAX_WINDOW: Final = 2**31  # credit is returned in 32 bits
#: bytes of a ring
MIN_RING: Final = 2**12
MAX_RING: Final = 2**30

TRANSPORTS: Final = ("loopback", "shared_memory", "unix", "tcp")
#: names of the thread levels; the index of a name is its constant, such as THREAD_SINGLE, which is 0
THREAD_LEVELS: Final = ("single", "funneled", "serialized", "multiple")
#: value of running_loop
BLOCK: Final = "block"
#: key in the metadata of a field, for the check of the field
_CHECK: Final = "check"

_PREFIX: Final = "AIOMPI_"
#: variables that are not settings: a launcher uses them to describe the job to a rank
_PLACE: Final = frozenset(
    {"appnum", "control", "key", "key_file", "lifeline", "parent", "rank", "size", "spawn_options"}
)
#: similarity to a setting from which a name counts as misspelt; names of up to _SHORT letters are similar by chance
_ALIKE: Final = 0.8
_SHORT: Final = 4

_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


def _checked(default: Any, check: Callable[[str, Any], None]) -> Any:
    """Return a field of `Settings`.

    Args:
        default: default of the setting.
        check: called with the name of the setting and a value; raises InvalidArgumentError if the setting cannot have
            the value.
    """
    return dataclasses.field(default=default, metadata={_CHECK: check})


def _byte_count(name: str, value: int) -> None:
    if value < 0:
        raise InvalidArgumentError(f"limits of messages are byte counts: {name} cannot be negative, and is {value}")


def _window(name: str, value: int) -> None:
    _byte_count(name, value)
    if value > MAX_WINDOW:
        raise InvalidArgumentError(
            f"limits of messages are byte counts: {name} is at most {MAX_WINDOW}, and cannot be {value}"
        )


def _transports(name: str, values: tuple[str, ...]) -> None:
    unknown = [value for value in values if value not in TRANSPORTS]
    if unknown:
        raise InvalidArgumentError(
            f"{name} lists names of transports and cannot have {', '.join(unknown)}: there are {', '.join(TRANSPORTS)}"
        )


def _ring(name: str, value: int) -> None:
    if not MIN_RING <= value <= MAX_RING or value & (value - 1):
        raise InvalidArgumentError(
            f"{name} is a number of bytes, a power of two from 4 KiB to 1 GiB, and cannot be {value}"
        )


def _seconds(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < math.inf:
        raise InvalidArgumentError(f"{name} is a time in seconds and cannot be {value}")


def _seconds_or_never(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < math.inf:
        raise InvalidArgumentError(f"{name} is a time in seconds, 0 for never, and cannot be {value}")


def _time_limit(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise InvalidArgumentError(f"{name} is a time in seconds and cannot be {value}")


def _clients(name: str, values: tuple[str, ...]) -> None:
    if not all(value.isdecimal() for value in values):
        raise InvalidArgumentError(f"{name} lists ranks of IMPI clients and cannot be {values}")


def _thread_level(name: str, value: str) -> None:
    if value not in THREAD_LEVELS:
        raise InvalidArgumentError(f"{name} cannot be {value!r}: it is one of {', '.join(THREAD_LEVELS)}")


def _one_of(*values: str) -> Callable[[str, str], None]:
    """Return a check for a setting that has one of these values, or is empty."""

    def check(name: str, value: str) -> None:
        if value and value not in values:
            raise InvalidArgumentError(f"{name} cannot be {value!r}: it is {' or '.join(values)}")

    return check


def _two_ports(name: str, value: str) -> None:
    if not _ports(value):
        raise InvalidArgumentError(f"{name} cannot be {value!r}: expected two ports, as 20000-20999")


def _ports(text: str) -> range:
    """Return the ports of a range: only port 0 if the text is empty, no port if the text cannot be read."""
    low, _, high = text.partition("-")
    if not text:
        return range(1)
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) < 2**16):
        return range(0)
    return range(int(low), int(high) + 1)


def _process_count(name: str, value: int) -> None:
    if value < 0:
        raise InvalidArgumentError(f"{name} is a number of processes and cannot be {value}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings. The environment variable of a field is AIOMPI_ and its name in upper case.

    Attributes:
        eager_limit: bytes; messages up to this size are sent without asking the receiver.
        shm_eager_limit: bytes; longer messages between ranks of one host are copied once, directly from memory to
            memory, where the kernel allows it (`single_copy`). Without effect above eager_limit.
        tcp_eager_limit: bytes; messages up to this size are sent over TCP without asking the receiver, because waiting
            for the receiver's answer takes long over TCP. Without effect below eager_limit.
        eager_window: bytes of eager messages that each peer may have sent and this rank has not received yet.
        pickle: True if objects that msgpack cannot express may be pickled, and pickles may be read.
        transports: names of transports that may be used, comma-separated in the environment. Empty means all, with TCP
            only if ranks may be on other machines. Without shared_memory, ranks share no memory with their IMPI host
            either.
        ring_size: bytes of memory that two ranks of one host share per direction, a power of two from 4 KiB to 1 GiB.
        single_copy: True if messages of more than shm_eager_limit bytes between ranks of one host are copied once,
            directly from memory to memory, where the kernel allows it.
        spin: seconds for which a waiting rank polls shared memory for messages before it sleeps; 0 for never. The
            default, None, means 500e-6 seconds; it means never if the host has more ranks than cores and a control
            group limits their CPU time. With more ranks than cores, a spinning rank yields the core at once to any
            other process.
        bind: address to which TCP listeners bind, or a name of this address. Empty means the addresses of `interface`.
        interface: interfaces whose addresses are published and listened on: names, numeric addresses and networks,
            comma-separated, as "ib0,10.0.0.0/8". Peers try the addresses in this order. Empty means the local address
            of the connection to the agent, or of the connection to the IMPI server in a job of several IMPI clients.
        port_range: ports of everything that listens for TCP, as "20000-20999". Empty means any free port.
        names: directory of published names (`Publish_name`), which only this user may enter. Empty means one in the
            directory for temporary files.
        tls: "auto" or "on" if TCP connections are encrypted, "off" if they are not. All processes of a job have "off",
            or none has it. An IMPI client with "auto" speaks in clear to an implementation that knows no encryption; a
            client with "on" refuses such an implementation.
        tls_cert: file with a certificate and its chain. Without such a file, each process makes a certificate of its
            own.
        tls_key: file with the private key of tls_cert; empty if the key is in the file of tls_cert.
        tls_ca: file with the authorities that sign the certificates of the other hosts; empty if this file is tls_cert.
        engine: name of the process manager that has started this process, such as "pmi", or "none" to run alone. Empty
            means the process manager whose variables are set. Processes of `aiompi-launch` ignore it.
        pmix_library: path of libpmix.so.2. Empty means the library beside the program that has started this process, or
            else the library that the dynamic linker finds.
        start_timeout: seconds within which all ranks that a process manager (`engine`) has started must join the job.
        connect_timeout: seconds to wait for a connection, and then for the connected peer to prove the key. A rank that
            accepts a connection may take longer to answer, because it computes. A launched rank waits for its launcher
            as long as the launcher lives.
        coll: algorithm by collective, in the environment as "bcast=binomial,reduce=linear".
        impi_native: True if IMPI clients connect their ranks with each other when all clients are aiompi. Otherwise all
            traffic between the clients is IMPI traffic between their hosts.
        impi_any_source: True if hosts of other IMPI clients may connect from addresses that they have not published.
        impi_start_timeout: seconds; 0 for never. The IMPI server fails the job if all clients have joined and the
            others wait for a standard label of one client for this time; detection takes up to twice this time. A
            client fails the job if it receives nothing for this time after the start has begun.
        impi_datalen: bytes of data that this client accepts in one IMPI packet; the job uses the smallest value of all
            clients. Each rank of another client may have impi_hiwater packets waiting at this client for a rank that
            does not receive.
        impi_ackmark: number of received IMPI packets after which a host sends an acknowledgement; the job uses the
            smallest value of all hosts.
        impi_hiwater: number of IMPI packets that may be unacknowledged, at least impi_ackmark; the job uses the
            smallest value of all hosts.
        impi_xsize: bytes from which collectives between IMPI clients use their long form, -1 for 1024; all clients
            must agree.
        impi_maxlinear: number of clients up to which collectives between IMPI clients are linear, -1 for 4; all clients
            must agree.
        impi_native_order: ranks of IMPI clients to which user data is sent in the byte order of this machine instead of
            in external32; LAM/MPI does so between machines of one kind.
        impi_reduce_point_to_point: ranks of IMPI clients with which Reduce communicates in the point-to-point context,
            as LAM/MPI does.
        impi_leaders_collective: True if the leaders of Intercomm_create use the collective context of a peer
            communicator that spans IMPI clients, False if they use its point-to-point context. IMPI does not say which
            context they use.
        debug: seconds after which a rank reports what a waiting call waits for; 0 for never.
        trace: directory in which a rank records what it does, for `python -m aiompi.trace`; empty for no trace.
        thread_level: thread level of programs of the blocking face, one of THREAD_LEVELS.
        running_loop: "error" if a blocking call inside a running event loop raises BlockingCallError, "block" if it
            blocks the loop, with one RuntimeWarning. Empty means "block" for programs of mpi4py, otherwise "error".
        on_failure: "abort" if the launcher ends the job when a rank fails, "continue" if the other ranks go on. Empty
            means "continue" with --serve, otherwise "abort".
        heartbeat: seconds after which a rank that is stopped, or whose machine does not answer, is expelled from the
            job; 0 for never. The default, None, is 10 with --serve and in a job of several IMPI clients, and 20 with
            --hosts. It is 10 under other engines, Dask and Ray, where only machines are watched. Otherwise it is 0.
        silence: seconds without data from a host of --hosts, after its start, after which the launcher treats the host
            as lost; 0 for never. The launcher does not wait this long if the kernel reports that the machine of the
            host does not answer.
        universe_size: the attribute UNIVERSE_SIZE: number of processes that the machines have room for. 0 means the
            slots of --hosts, or the cores of this machine if all ranks are on it, or else the number of ranks.
    """

    eager_limit: int = _checked(256 * 2**10, _byte_count)
    shm_eager_limit: int = _checked(128 * 2**10, _byte_count)
    tcp_eager_limit: int = _checked(2**20, _byte_count)
    eager_window: int = _checked(4 * 2**20, _window)
    pickle: bool = True
    transports: tuple[str, ...] = _checked((), _transports)
    ring_size: int = _checked(2**20, _ring)
    single_copy: bool = True
    spin: float | None = _checked(None, _seconds)
    bind: str = ""
    interface: str = ""
    port_range: str = _checked("", _two_ports)
    names: str = ""
    tls: str = _checked("auto", _one_of("auto", "on", "off"))
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    engine: str = ""
    pmix_library: str = ""
    start_timeout: float = 600.0
    connect_timeout: float = _checked(30.0, _time_limit)
    coll: Mapping[str, str] = dataclasses.field(default_factory=dict)
    impi_native: bool = True
    impi_any_source: bool = False
    impi_start_timeout: float = _checked(300.0, _seconds_or_never)
    impi_datalen: int = 2 * 2**20
    impi_ackmark: int = 10
    impi_hiwater: int = 20
    impi_xsize: int = -1
    impi_maxlinear: int = -1
    impi_native_order: tuple[str, ...] = _checked((), _clients)
    impi_reduce_point_to_point: tuple[str, ...] = _checked((), _clients)
    impi_leaders_collective: bool = True
    debug: float = _checked(0.0, _seconds_or_never)
    trace: str = ""
    thread_level: str = _checked("funneled", _thread_level)
    running_loop: str = _checked("", _one_of("error", BLOCK))
    on_failure: str = _checked("", _one_of("abort", "continue"))
    heartbeat: float | None = _checked(None, _seconds_or_never)
    silence: float = _checked(60.0, _seconds_or_never)
    universe_size: int = _checked(0, _process_count)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check = field.metadata.get(_CHECK)
            if check is not None:
                check(field.name, getattr(self, field.name))
        if (self.tls_key or self.tls_ca) and not self.tls_cert:
            raise InvalidArgumentError(
                "tls_key and tls_ca (--key, --ca) are for a tls_cert (--cert), and there is none"
            )

    @property
    def ports(self) -> range:
        """The ports of `port_range`, only 0 if it is empty."""
        return _ports(self.port_range)


def load(environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """Return the settings from the environment and from `rc`.

    Args:
        environ: mapping with the AIOMPI_* variables.
        overrides: values that override the environment and `rc`.

    Raises:
        InvalidArgumentError: a value cannot be read, the name of a variable looks like a misspelt setting, or an
            override is not the name of a setting.
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
    """Settings that the program makes before its first use of a communicator, as in `aiompi.rc.pickle = False`."""

    _values: dict[str, Any]
    _readers: weakref.WeakSet[Any]
    _watchers: list[Callable[[], object]]

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_readers", weakref.WeakSet())
        object.__setattr__(self, "_watchers", [])

    def read_by(self, reader: object) -> None:
        """Refuse changes until `forgotten_by`, because `reader` has read the values."""
        self._readers.add(reader)

    def forgotten_by(self, reader: object) -> None:
        """Undo `read_by`."""
        self._readers.discard(reader)

    def watch(self, watcher: Callable[[], object]) -> None:
        """Call a function after each change."""
        self._watchers.append(watcher)

    def __call__(self, **values: Any) -> None:
        """Set several values at once.

        Raises:
            InvalidArgumentError: there is no such setting, or a string cannot be read.
            TypeError: a value has the wrong type.
            LocalProtocolError: this process is a rank already.
        """
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _DEFAULTS:
            raise InvalidArgumentError(f"no such setting: {name}; there are {', '.join(_DEFAULTS)}")
        if self._readers:
            raise LocalProtocolError(
                f"aiompi.rc.{name} is set too late: this process is a rank already and has read its settings. "
                "Set it before the first use of a communicator, in the asyncio face before aiompi.run or aiompi.init"
            )
        if isinstance(value, str):
            self._values[name] = _read(name, value, f"aiompi.rc.{name} = {value!r}")
        else:
            self._values[name] = _KINDS[type(_DEFAULTS[name])].take(value, f"aiompi.rc.{name}")
        for watcher in self._watchers:
            watcher()

    def __getattr__(self, name: str) -> Any:
        if name not in _DEFAULTS:
            raise AttributeError(name)
        return self._values.get(name, _DEFAULTS[name])


def _refuse_misspelt(variable: str, name: str) -> None:
    """Raise if the name is almost that of a setting. Other variables with the prefix do not belong to aiompi."""
    import difflib  # takes 2 ms, which only unknown names should cost

    for meant in difflib.get_close_matches(name, _DEFAULTS, 1, _ALIKE):
        raise InvalidArgumentError(f"{variable} is no setting; is {_PREFIX}{meant.upper()} meant?")


def _read(name: str, text: str, given: str) -> Any:
    """Return the value of a string, the default if it is empty. Messages name the string as `given`."""
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
    """Converters for settings whose defaults have the same type.

    Attributes:
        read: returns the value of a string; raises ValueError if the string is wrong.
        take: called with an object that the program assigns and the name of the setting; returns the value, or raises
            TypeError if the object is wrong.
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
