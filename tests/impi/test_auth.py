from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.impi import auth
from aiompi.impi.auth import KEY, NONE, Credentials
from support.cases import cases


@pytest.mark.spec("I2.3.3-3", "I2.3.3-4", "I2.3.3-5")
@cases(
    ("environ", "methods"),
    [
        ({"IMPI_AUTH_NONE": ""}, (NONE,)),
        ({"IMPI_AUTH_NONE": "0"}, (NONE,)),
        ({"IMPI_AUTH_KEY": "5678"}, (KEY,)),
        ({"IMPI_AUTH_KEY": "0"}, (KEY,)),
        ({"IMPI_AUTH_KEY": "", "IMPI_AUTH_NONE": "yes"}, (NONE,)),
        ({"IMPI_AUTH_KEY": "1", "IMPI_AUTH_NONE": ""}, (KEY, NONE)),
    ],
)
def test_methods_are_available_only_when_enabled(environ: dict[str, str], methods: tuple[int, ...]) -> None:
    assert Credentials.from_environ(environ).methods == methods


@pytest.mark.spec("I2.3.3-6")
@pytest.mark.parametrize("environ", [{}, {"IMPI_AUTH_KEY": ""}, {"PATH": "/bin"}])
def test_no_method_at_all_is_an_error(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="no authentication method available"):
        Credentials.from_environ(environ)


@pytest.mark.spec("I2.3.3-5")
@cases("text", ["5678x", "-1", "1.5", "1_000", "0x", "18446744073709551616", "9" * 5000, "٣"])
def test_a_key_that_is_no_64_bit_number_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="IMPI_AUTH_KEY") as caught:
        Credentials.from_environ({"IMPI_AUTH_KEY": text, "IMPI_AUTH_NONE": ""})
    assert text not in str(caught.value)


@pytest.mark.spec("I2.3.3-5", "I2.3.3-24")
@cases(
    ("text", "golden"),
    [
        ("5678", "000000000000162e"),
        (" 007 ", "0000000000000007"),
        ("4294967297", "0000000100000001"),
        ("18446744073709551615", "ffffffffffffffff"),
        ("0xFFFFFFFFFFFFFFFF", "ffffffffffffffff"),
    ],
)
def test_keys_are_decimal_numbers_of_64_bits(text: str, golden: str) -> None:
    credentials = Credentials.from_environ({"IMPI_AUTH_KEY": text})
    assert credentials.encode_key() == bytes.fromhex(golden)
    assert credentials.matches(bytes.fromhex(golden))


@pytest.mark.spec("I2.3.3-24")
@given(st.integers(0, 2**64 - 1), st.integers(0, 63))
def test_every_bit_of_the_key_matters(key: int, bit: int) -> None:
    sent = Credentials(key=key).encode_key()
    assert Credentials(key=key).matches(sent)
    assert not Credentials(key=key ^ 1 << bit).matches(sent)


@pytest.mark.spec("I2.3.3-25")
def test_keys_are_compared_in_constant_time_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def spy(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return a == b

    monkeypatch.setattr(hmac, "compare_digest", spy)
    credentials = Credentials(key=987654321)
    assert not credentials.matches(bytes(8))
    assert compared == [(credentials.encode_key(), bytes(8))]
    assert "987654321" not in repr(credentials)


def test_without_a_key_nothing_matches() -> None:
    assert not Credentials(none=True).matches(bytes(8))


@pytest.mark.spec("I2.3.3-11")
@cases(
    ("text", "methods"),
    [
        ("0", (0,)),
        ("3,1-0", (3, 1, 0)),
        ("0-1", (0, 1)),
        ("1-0", (1, 0)),
        ("1,0,1", (1, 0)),
        ("2-2", (2,)),
        (" 1, 0", (1, 0)),
        ("33-31", (33, 32, 31)),
    ],
)
def test_preference_lists(text: str, methods: tuple[int, ...]) -> None:
    assert auth.parse_preference(text) == methods


@pytest.mark.spec("I2.3.3-13")
@cases("text", ["", ",", "1,", "a", "-1", "1-", "0-1-2", "1 0", "0-4000000000", "99999", "٣"])
def test_malformed_preference_lists_are_usage_errors(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="-auth"):
        auth.parse_preference(text)


@pytest.mark.spec("I2.3.3-9", "I2.3.3-12", "I2.3.3-13")
@cases(
    ("preference", "ours", "theirs", "choice"),
    [
        ((1, 0), {0, 1}, {0, 1}, 1),
        ((0, 1), {0, 1}, {0, 1}, 0),
        ((1, 0), {0, 1}, {0}, 0),
        ((1, 0), {0}, {0, 1}, 0),
        ((3, 1, 0), {0, 1}, {0, 1, 3}, 1),
        ((0,), {0, 1}, {1}, None),
        ((0,), {0, 1}, {0, 1}, 0),
        ((1, 0), {1}, {0}, None),
        (tuple(auth.METHODS), {0, 1}, {0, 1}, 1),
    ],
)
def test_the_most_preferred_common_method_is_chosen(
    preference: tuple[int, ...], ours: set[int], theirs: set[int], choice: int | None
) -> None:
    assert auth.choose(preference, ours, theirs) == choice


@pytest.mark.spec("I2.3.3-1")
@pytest.mark.parametrize(
    ("methods", "golden"),
    [
        ((NONE,), "41555448 00000004 00000001"),
        ((KEY,), "41555448 00000004 00000002"),
        ((KEY, NONE), "41555448 00000004 00000003"),
    ],
)
def test_the_mask_has_one_bit_per_method(methods: tuple[int, ...], golden: str) -> None:
    assert auth.encode_auth(methods) == bytes.fromhex(golden)


@pytest.mark.spec("I2.3.3-7")
@cases(
    ("words", "methods"),
    [
        ("00000003", {0, 1}),
        ("00000000", set()),
        ("80000001", {0, 31}),
        ("00000002 00000001", {1, 32}),
        ("00000000 80000000 00000001", {63, 64}),
    ],
)
def test_masks_may_have_several_words(words: str, methods: set[int]) -> None:
    assert auth.decode_auth(bytes.fromhex(words)) == methods


@given(st.sets(st.integers(0, 1023), min_size=1))
def test_masks_come_back(methods: set[int]) -> None:
    assert auth.decode_auth(auth.encode_auth(sorted(methods))[8:]) == methods


@pytest.mark.spec("I2.3.3-8")
def test_the_choice_of_the_server_has_no_command_header() -> None:
    assert auth.encode_server_auth(KEY) == bytes.fromhex("00000001 00000000")
    assert auth.decode_server_auth(bytes.fromhex("00000001 00000000"), (KEY, NONE)) == (KEY, 0)


@pytest.mark.spec("I2.3.3-15")
@cases("data", ["00000001 00000000", "00000007 00000000", "ffffffff 00000000", "00000000 ffffffff"])
def test_a_choice_that_was_not_offered_is_refused(data: str) -> None:
    with pytest.raises(RemoteProtocolError, match="IMPI_AUTH_NONE"):
        auth.decode_server_auth(bytes.fromhex(data), (NONE,))
