"""An IMPI server and its client, as processes with real ranks, of which one is killed or refused."""

from __future__ import annotations

import signal

from support.jobs import Running, Site, in_face

RIGHT = {"IMPI_AUTH_KEY": "77"}
WORLD_SUM = in_face("blocking", "print(await comm.allreduce(1))")
WAITING = in_face("blocking", "print('ready', flush=True)\nawait comm.recv(source=comm.rank)")


def serve(site: Site, clients: int = 1) -> tuple[Running, str]:
    server = site.launch("--server", str(clients), "-v", env=RIGHT)
    server.expect("\n")
    return server, server.out.strip()


def connect(site: Site, address: str, text: str, env: dict[str, str] = RIGHT) -> Running:
    return site.launch("--client", "0", address, "-n", "1", site.program(text), env=env)


def test_wrong_key_then_the_right_one(site: Site) -> None:
    """The client that is refused starts no rank; the server waits for the right one."""
    server, address = serve(site)
    result = connect(site, address, WORLD_SUM, {"IMPI_AUTH_KEY": "78"}).finish()
    assert (result.code, result.out) == (1, "")
    assert f"IMPI server {address}: " in result.err
    assert "key" in result.err
    result = connect(site, address, WORLD_SUM).finish()
    assert (result.code, result.lines, result.err) == (0, ["1"], "")
    assert server.finish().code == 0


def test_server_killed_while_clients_are_missing(site: Site) -> None:
    server, address = serve(site, clients=2)
    client = connect(site, address, WORLD_SUM)
    server.expect("client 0 has joined")
    server.signal(signal.SIGKILL)
    server.finish()
    result = client.finish()
    assert (result.code, result.out) == (1, "")
    assert f"IMPI server {address}: " in result.err


def test_server_killed_while_the_job_runs(site: Site) -> None:
    server, address = serve(site)
    client = connect(site, address, WAITING)
    client.expect("ready")
    server.signal(signal.SIGKILL)
    server.finish()
    result = client.finish()
    assert result.code == 1
    assert f"IMPI server {address}: " in result.err


def test_client_killed_while_the_job_runs(site: Site) -> None:
    """The server ends with a failure; the ranks of the client end, too."""
    server, address = serve(site)
    client = connect(site, address, WAITING)
    client.expect("ready")
    client.signal(signal.SIGKILL)
    client.finish()
    result = server.finish()
    assert result.code == 1
    assert "the job has failed" in result.err
