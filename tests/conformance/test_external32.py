"""Messages in the canonical representation (section 4.3 of MPI-3.1)."""

from __future__ import annotations

import numpy as np
import pytest

import aiompi


@pytest.mark.asyncio
@pytest.mark.spec("D4.3-5", "D4.3-6")
async def test_data_in_external32_travels_as_bytes() -> None:
    a, b = aiompi.local_world(2)
    pair = aiompi.Datatype.Create_struct([1, 2], [0, 8], [aiompi.MPI.SHORT, aiompi.MPI.DOUBLE]).Commit()
    here = np.zeros(3, np.dtype([("s", "i2"), ("d", "f8", 2)], align=True))
    here["s"], here["d"] = [1, -2, 300], [[0.5, 1], [2, 3], [4, -5]]
    there = np.zeros_like(here)
    message = bytearray(pair.Pack_external_size("external32", 3))
    assert len(message) == 3 * (2 + 16)
    assert pair.Pack_external("external32", here, message, 0) == len(message)
    await a.Send([message, aiompi.MPI.BYTE], dest=1)
    arrived = bytearray(len(message))
    status = await b.Recv([arrived, aiompi.MPI.BYTE], source=0)
    assert status.Get_count(aiompi.MPI.BYTE) == len(message)
    assert arrived[:10].hex() == "00013fe0000000000000"
    assert pair.Unpack_external("external32", arrived, 0, there) == len(message)
    assert (there == here).all()
