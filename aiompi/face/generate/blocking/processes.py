"""Processes that meet at run time, in the blocking face (MPI-2, chapter 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiompi import create
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import check_running_loop, process
from aiompi.info import INFO_NULL, Info

if TYPE_CHECKING:
    from aiompi.face.blocking.communicator import Intercomm


class Meeting(Handle):
    """Calls of all members of an intracommunicator, by which they get an intercommunicator with other processes."""

    __slots__ = ()


def Open_port(info):
    check_running_loop("MPI.Open_port", "await world.Open_port()")
    engine = process.runtime.engine
    with process.driver.exclusive("Open_port"):
        return process.driver.wait(engine.spawn(create.open_port(engine)))


def Close_port(port_name) -> None:
    engine = process.runtime.engine
    with process.driver.exclusive("Close_port"):
        create.close_port(engine, port_name)


def Publish_name(service_name, port_name, info) -> None:
    process.runtime.names.publish(service_name, port_name)


def Unpublish_name(service_name, port_name, info) -> None:
    process.runtime.names.withdraw(service_name)


def Lookup_name(service_name, info) -> str:
    return process.runtime.names.lookup(service_name)
