"""Host identifiers (IMPI 0.0, section 1.2.3): 16 bytes, an IPv6 address or an IPv4 address in one of two forms.

Identifiers are compared and passed on exactly as their client wrote them. They are interpreted only to connect.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from aiompi.errors import InvalidArgumentError

_MAPPED: Final = bytes(10) + b"\xff\xff"
_COMPATIBLE: Final = bytes(12)
# Short numbers behind twelve zeros are IPv6's own "unspecified" and "loopback", not 0.0.0.0 and 0.0.0.1.
_IPV6_SPECIAL: Final = frozenset({bytes(16), bytes(15) + b"\x01"})


def host_identifier(address: str) -> bytes:
    """Return the identifier of a host, for IPv4 in the recommended mapped form.

    Args:
        address: numeric IPv4 or IPv6 address.

    Raises:
        InvalidArgumentError: the address is not numeric.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise InvalidArgumentError(f"{address!r} is not a numeric IPv4 or IPv6 address") from None
    return _MAPPED + ip.packed if ip.version == 4 else ip.packed


def host_address(identifier: bytes) -> str:
    """Return the address to connect to: IPv4 for the mapped and the compatible form, otherwise IPv6.

    Args:
        identifier: 16 bytes, as in the label H_IPV6.
    """
    if identifier[:12] in {_MAPPED, _COMPATIBLE} and identifier not in _IPV6_SPECIAL:
        return str(ipaddress.IPv4Address(identifier[12:]))
    return str(ipaddress.IPv6Address(identifier))
