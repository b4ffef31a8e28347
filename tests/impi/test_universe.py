from __future__ import annotations

import pytest

from aiompi.impi.universe import HostInfo


@pytest.mark.spec("I1.2.3-3")
@pytest.mark.parametrize("prefix", [bytes(12), bytes(10) + b"\xff\xff"])
def test_a_host_knows_where_to_connect(prefix: bytes) -> None:
    host = HostInfo(ipv6=prefix + bytes([192, 0, 2, 20]), port=6001, client=1, procs=range(2, 3))
    assert (host.address, host.port) == ("192.0.2.20", 6001)
