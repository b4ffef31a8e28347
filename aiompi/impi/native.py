"""Private IMPI labels: if all clients are aiompi, they exchange a key and addresses, so that ranks connect directly.

    label     each client submits
    EXCHANGE  its half of a key exchange
    KEY       client 0: a new key, sealed for each other client; the others: nothing
    CARDS     the business cards of its ranks, in the order of their ranks

Ranks of different clients prove the key to each other. A process that knows the key can run code in every rank, because
objects may be pickled. So the key, unlike IMPI_AUTH_KEY, does not cross the network in clear (`key_exchange`). This
protects against an eavesdropper. IMPI 0.0 has no protection against an attacker that changes data in transit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from aiompi.errors import RemoteProtocolError
from aiompi.impi.label import FIRST_PRIVATE

EXCHANGE: Final = FIRST_PRIVATE
KEY: Final = FIRST_PRIVATE + 1
CARDS: Final = FIRST_PRIVATE + 2


def encode_cards(cards: Sequence[Mapping[str, object]]) -> bytes:
    """Return the data of the label CARDS: a client's business cards, an empty list if its ranks ended without cards.

    Paths in cards need not be UTF-8.
    """
    data: bytes = msgpack.packb(cards, unicode_errors="surrogatepass")
    return data


def decode_cards(data: bytes, count: int) -> list[dict[str, Any]]:
    """Return the business cards of the ranks of a client; empty if the ranks have ended without cards.

    Args:
        data: its CARDS.
        count: number of its ranks.

    Raises:
        RemoteProtocolError: the data are not that many cards.
    """
    try:
        cards = msgpack.unpackb(data, unicode_errors="surrogatepass")
    except Exception as error:
        raise RemoteProtocolError(f"business cards cannot be read: {error!r}") from None
    if type(cards) is not list or len(cards) not in (0, count) or any(type(card) is not dict for card in cards):
        raise RemoteProtocolError(f"business cards of {count} ranks were expected")
    return cards
