"""Settings: environment, program, defaults, and values that cannot be read."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from aiompi import settings
from aiompi.errors import InvalidArgumentError
from aiompi.settings import RC, Settings, load, rc
from support.cases import cases
from support.jobs import Site


@pytest.fixture(autouse=True)
def fresh_rc() -> Iterator[None]:
    """Forget the settings of a test."""
    before = dict(rc._values)
    rc._values.clear()
    yield
    rc._values.clear()
    rc._values.update(before)


def test_defaults() -> None:
    assert load({}) == Settings()
    assert Settings() == Settings(
        eager_limit=262144,
        eager_window=4194304,
        pickle=True,
        ring_size=1048576,
        spin=None,
        transports=(),
        bind="",
        connect_timeout=30.0,
        coll={},
        impi_start_timeout=300.0,
        impi_native=True,
        impi_native_order=(),
        impi_reduce_point_to_point=(),
        impi_leaders_collective=True,
        debug=0.0,
        thread_level="funneled",
        running_loop="",
        on_failure="",
        heartbeat=None,
        silence=60.0,
    )


@cases(
    ("name", "text", "value"),
    [
        ("eager_limit", "0", 0),
        ("eager_limit", " 1500 ", 1500),
        ("eager_limit", "8k", 8192),
        ("eager_limit", "8KB", 8192),
        ("eager_limit", "8KiB", 8192),
        ("eager_window", "2M", 2 * 2**20),
        ("eager_window", "1G", 2**30),
        ("eager_window", "7B", 7),
        ("ring_size", "64K", 65536),
        ("spin", "0", 0.0),
        ("spin", "50e-6", 50e-6),
        ("pickle", "0", False),
        ("pickle", "No", False),
        ("pickle", "off", False),
        ("pickle", "TRUE", True),
        ("pickle", "1", True),
        ("transports", "tcp", ("tcp",)),
        ("transports", " unix , tcp ,", ("unix", "tcp")),
        ("transports", "", ()),
        ("bind", "0.0.0.0", "0.0.0.0"),
        ("impi_native", "0", False),
        ("impi_native_order", "0, 12", ("0", "12")),
        ("impi_reduce_point_to_point", "0,12", ("0", "12")),
        ("impi_leaders_collective", "0", False),
        ("connect_timeout", "0.5", 0.5),
        ("connect_timeout", "10", 10.0),
        ("heartbeat", "2.5", 2.5),
        ("silence", "0", 0.0),
        ("coll", "bcast=binomial, reduce = linear", {"bcast": "binomial", "reduce": "linear"}),
        ("coll", "bcast=binomial, ", {"bcast": "binomial"}),
        ("coll", "", {}),
    ],
)
def test_environment(name: str, text: str, value: Any) -> None:
    loaded = load({f"AIOMPI_{name.upper()}": text, "AIOMPI_RANK": "3", name: "ignored"})
    assert getattr(loaded, name) == value
    assert type(getattr(loaded, name)) is type(value)
    assert dataclasses.replace(loaded, **{name: getattr(Settings(), name)}) == Settings()


@cases(
    ("given", "meant"),
    [("TRANSPORT", "TRANSPORTS"), ("RINGSIZE", "RING_SIZE"), ("PICKEL", "PICKLE"), ("ring_size", "RING_SIZE")],
)
def test_misspelt_variable(given: str, meant: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^AIOMPI_{given} is no setting; is AIOMPI_{meant} meant"):
        load({f"AIOMPI_{given}": "1"})


@cases(
    "name",
    [
        "AIOMPI_CONTROL",
        "AIOMPI_RANK",
        "AIOMPI_SIZE",
        "AIOMPI_APPNUM",
        "AIOMPI_KEY",
        "AIOMPI_DEPLOYMENT",
        "AIOMPI_BIN",
        "AIOMPI_",
    ],
)
def test_variable_of_another_purpose(name: str) -> None:
    assert load({name: "1"}) == Settings()


@cases(
    ("name", "text"),
    [
        ("eager_limit", "K"),
        ("eager_limit", "many"),
        ("eager_limit", "1.5M"),
        ("eager_limit", "1T"),
        ("eager_limit", "0x10"),
        ("pickle", "maybe"),
        ("connect_timeout", "soon"),
        ("spin", "auto"),
        ("coll", "bcast"),
        ("coll", "bcast=a=b"),
    ],
)
def test_value_that_cannot_be_read(name: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"AIOMPI_{name.upper()}='{text}' cannot be read"):
        load({f"AIOMPI_{name.upper()}": text})


@cases("text", ["", " "])
@cases("name", Settings.__dataclass_fields__)
def test_empty_means_the_default(name: str, text: str) -> None:
    assert load({f"AIOMPI_{name.upper()}": text}) == Settings()
    setattr(rc, name, text)
    assert getattr(rc, name) == getattr(Settings(), name)


@cases(
    ("name", "value", "given"),
    [
        ("ring_size", 2**12, 2**12),
        ("spin", 1, 1.0),
        ("spin", None, None),
        ("connect_timeout", 5, 5.0),
        ("transports", ["tcp", "unix"], ("tcp", "unix")),
        ("coll", {"bcast": "linear"}, {"bcast": "linear"}),
        ("bind", "::", "::"),
    ],
)
def test_rc_takes_values(name: str, value: Any, given: Any) -> None:
    setattr(rc, name, value)
    assert getattr(load({}), name) == given
    assert type(getattr(load({}), name)) is type(given)


@cases(
    ("name", "value", "complaint"),
    [
        ("ring_size", 4096.5, " is 4096.5: expected an integer"),
        ("ring_size", None, " is None: expected an integer"),
        ("connect_timeout", None, " is None: expected a number"),
        ("spin", [1], r" is \[1\]: expected a number"),
        ("single_copy", None, " is None: expected True or False"),
        ("pickle", 2, " is 2: expected True or False"),
        ("transports", 5, " is 5: expected a sequence of strings"),
        ("impi_native_order", [0], r"\[0\] is 0: expected a string"),
        ("coll", ["bcast"], r" is \['bcast'\]: expected a dict"),
        ("coll", {"bcast": 1}, r"\['bcast'\] is 1: expected a string"),
        ("bind", 5, " is 5: expected a string"),
        ("thread_level", 3, " is 3: expected a string"),
    ],
)
def test_rc_refuses_values_of_other_types(name: str, value: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=f"^aiompi.rc.{name}{complaint}"):
        setattr(rc, name, value)
    assert getattr(rc, name) == getattr(Settings(), name)


def test_what_is_wrong_with_a_list_of_algorithms() -> None:
    with pytest.raises(InvalidArgumentError, match=r"AIOMPI_COLL='reduce=linear,bcast' .*: 'bcast' is no NAME=VALUE"):
        load({"AIOMPI_COLL": "reduce=linear,bcast"})


@pytest.mark.parametrize("name", ["eager_limit", "eager_window"])
def test_negative_byte_counts_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="negative"):
        Settings(**{name: -1})
    with pytest.raises(InvalidArgumentError, match="negative"):
        load({f"AIOMPI_{name.upper()}": "-1"})


def test_program_wins_over_environment_and_call_over_both() -> None:
    environ = {"AIOMPI_EAGER_LIMIT": "1", "AIOMPI_EAGER_WINDOW": "2", "AIOMPI_BIND": "::"}
    rc.eager_limit = 10
    rc(eager_window=20, connect_timeout=1.0)
    loaded = load(environ, eager_window=200)
    assert (loaded.eager_limit, loaded.eager_window, loaded.bind, loaded.connect_timeout) == (10, 200, "::", 1.0)


def test_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOMPI_EAGER_LIMIT", "77")
    assert load().eager_limit == 77
    monkeypatch.delenv("AIOMPI_EAGER_LIMIT")
    assert load().eager_limit == Settings().eager_limit


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no such setting: eager_limits; there are eager_limit, "):
        rc.eager_limits = 1
    with pytest.raises(InvalidArgumentError, match="no such setting: colour"):
        rc(colour="red")
    with pytest.raises(InvalidArgumentError, match="no such setting: a, b"):
        load({}, b=1, a=2)
    with pytest.raises(AttributeError):
        _ = rc.colour
    assert not hasattr(RC(), "__wrapped__")


def test_rc_tells_what_will_be_used() -> None:
    assert rc.pickle is True
    rc.pickle = False
    assert rc.pickle is False
    assert load({}).pickle is False


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().eager_limit = 1  # type: ignore[misc]


def test_every_setting_is_documented() -> None:
    documentation = Settings.__doc__ or ""
    for field in dataclasses.fields(Settings):
        assert f"{field.name}: " in documentation
        assert settings._DEFAULTS[field.name] == getattr(Settings(), field.name)


def test_window_fits_the_field_that_returns_it() -> None:
    assert Settings(eager_window=settings.MAX_WINDOW).eager_window == 2**31
    for values in ({"eager_window": 2**31 + 1}, {"eager_window": -1}, {"eager_limit": -1}):
        with pytest.raises(InvalidArgumentError, match="byte counts"):
            Settings(**values)


@cases("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_connect_timeout_is_a_time(timeout: float) -> None:
    with pytest.raises(InvalidArgumentError, match="connect_timeout"):
        Settings(connect_timeout=timeout)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_heartbeat_is_a_time(seconds: float) -> None:
    assert Settings(heartbeat=0.0).heartbeat == 0
    with pytest.raises(InvalidArgumentError, match="heartbeat"):
        Settings(heartbeat=seconds)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf")])
def test_impi_start_timeout_is_a_time(timeout: float) -> None:
    assert Settings(impi_start_timeout=0.0).impi_start_timeout == 0
    with pytest.raises(InvalidArgumentError, match="impi_start_timeout"):
        Settings(impi_start_timeout=timeout)


@pytest.mark.parametrize("spin", [-1e-6, float("nan"), float("inf")])
def test_spin_is_a_time(spin: float) -> None:
    with pytest.raises(InvalidArgumentError, match="spin"):
        Settings(spin=spin)


@pytest.mark.parametrize("name", ["tls_key", "tls_ca"])
def test_a_key_or_an_authority_without_a_certificate(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"are for a tls_cert"):
        Settings(**{name: "file.pem"})


def test_transports_have_names() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"transports .* cannot have ib, dove: there are loopback, shared_memory, unix"
    ):
        load({"AIOMPI_TRANSPORTS": "tcp,ib,dove"})


def test_rc_reads_what_the_environment_would_hold() -> None:
    rc = settings.RC()
    rc(eager_limit="64K", transports="unix, tcp", pickle="0")
    assert (rc.eager_limit, rc.transports, rc.pickle) == (65536, ("unix", "tcp"), False)
    with pytest.raises(InvalidArgumentError, match=r"^aiompi\.rc\.eager_limit = 'much' cannot be read"):
        rc.eager_limit = "much"


def test_thread_levels_have_names() -> None:
    with pytest.raises(InvalidArgumentError, match="thread_level cannot be 'many': it is one of single, funneled, ser"):
        Settings(thread_level="many")


@pytest.mark.parametrize("face", ["native", "blocking"])
def test_what_is_set_too_late_is_refused(face: str, site: Site) -> None:
    program = {
        "native": """
            async def main(world):
                try:
                    aiompi.rc.pickle = False
                except aiompi.LocalProtocolError as error:
                    print(error)
            aiompi.run(main)
            aiompi.rc.pickle = False
            """,
        "blocking": """
            from aiompi import MPI
            aiompi.rc.pickle = True
            MPI.COMM_WORLD.Barrier()
            try:
                aiompi.rc(pickle=False)
            except aiompi.LocalProtocolError as error:
                print(error)
            """,
    }[face]
    result = site.ok(1, "import aiompi\n" + textwrap.dedent(program))
    assert result.lines == [
        "aiompi.rc.pickle is set too late: this process is a rank already and has read its settings. Set it "
        "before the first use of a communicator, in the asyncio face before aiompi.run or aiompi.init"
    ]
