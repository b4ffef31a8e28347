"""`PeerProcess`: a process whose memory is read and written."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from aiompi.datatype.buffer import process
from aiompi.transport.shared_memory.cma import PeerProcess


def test_a_process_that_has_ended_is_not_taken_for_a_later_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        memory = bytearray(b"x" * 100)
        child = os.fork()
        if not child:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(tmp_path / "socket"))
                sock.recv(1)
            os._exit(0)
        sock, _ = listener.accept()
        (tmp_path / "socket").unlink()
    with sock:
        peer = PeerProcess(sock)
        into = bytearray(100)
        assert peer.read(process.address_of(memoryview(memory)), memoryview(into))
        assert into == memory
        assert peer.same()
        assert peer.alive()
        sock.send(b".")
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert peer.same(), "no process has waited for it"
        assert not peer.alive()
        os.waitpid(child, 0)
        assert not peer.alive()
        assert not peer.same()
        assert not peer.read(process.address_of(memoryview(memory)), memoryview(into))
        peer.close()
        assert not peer.reachable
