"""Threads, versions, profilers and error handlers of the blocking face, in jobs of real processes."""

from __future__ import annotations

import pytest

from aiompi import errors
from support.jobs import Site, in_face

HEAD = """
import threading
from aiompi import errors, hooks
from aiompi.comm.errhandler import ERRORS_ARE_FATAL, ERRORS_RETURN
from aiompi.face.blocking import environment

def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]
"""


def program(body: str) -> str:
    return in_face("blocking", HEAD + body)


@pytest.mark.spec("S8.1-3", "S8.4.1-1")
def test_threads_versions_and_profilers(site: Site) -> None:
    body = """
# Init_thread is called first and once; threads know whether they are the one that has joined the job.
assert environment.Init_thread(MPI.THREAD_FUNNELED) == environment.Query_thread() == MPI.THREAD_FUNNELED
assert MPI.Is_initialized()
assert environment.Is_thread_main()
assert not in_thread(environment.Is_thread_main)
for call, text in ((environment.Init_thread, "called after MPI_Init"), (lambda: environment.Init_thread(4), "THREAD_")):
    try:
        call()
    except MPI.Exception as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)

version = environment.Get_library_version()
assert version.startswith("aiompi 0."), version
assert len(version) <= MPI.MAX_LIBRARY_VERSION_STRING
assert environment.get_vendor() == ("aiompi", tuple(map(int, aiompi.__version__.split("."))))

# Profilers see the control call, which does nothing, whatever its arguments are.
seen = []
hooks.surface(environment, environment.__all__)
with hooks.added(lambda call: (seen.append((call.name, call.args)), call())[1]):
    for arguments in ((0,), (1,), (2,), (7, "text", None, object)):
        assert environment.Pcontrol(*arguments) is None
assert seen == [("Pcontrol", arguments) for arguments in ((0,), (1,), (2,), (7, "text", None, object))]

# Example 8.4.1: what is sent, in bytes, and how long that takes; other calls are left alone.
total, seconds = 0, 0.0

@hooks.add
def profile(call):
    global total, seconds
    began = MPI.Wtime()
    try:
        return call()
    finally:
        if call.name == "Send":
            buf, count, datatype = call.args[0]
            total += count * datatype.Get_size()
            seconds += MPI.Wtime() - began

if comm.rank == 0:
    for count in (0, 1, 500):
        comm.Send([bytearray(8 * count), count, MPI.DOUBLE], 1)
    comm.Send([bytearray(12), 3, MPI.INT], dest=1)
    comm.Ssend([bytearray(8), 1, MPI.DOUBLE], dest=1)
else:
    for _ in range(5):
        comm.Recv(bytearray(8000), 0)
print(total, seconds >= 0)
hooks.remove(profile)
comm.barrier()
"""
    # The callbacks for attributes of COMM_SELF run also when the program ends without Finalize.
    assert site.ok(2, program(body + ATTRIBUTES)).lines == ["0 True", "4020 True", "deleted True 0", "deleted True 1"]


#: libraries clean up with communication still possible (MPI-2, section 4.8)
ATTRIBUTES = """
def delete(own, keyval, value):
    print(value, own is MPI.COMM_SELF, own.sendrecv(comm.rank, 0))

MPI.COMM_SELF.Set_attr(MPI.Intracomm.Create_keyval(delete_fn=delete), "deleted")
"""


@pytest.mark.spec("S7.2-6", "S7.2-7", "S2.7-4")
def test_handlers_are_asked_by_the_call_that_completes(site: Site) -> None:
    """The handler gets the error code; for several requests it gets that of the statuses."""
    body = """
calls = []
comm.Set_errhandler(comm.Create_errhandler(lambda comm, code: calls.append((comm, code))))

def fails(function, kind):
    before = len(calls)
    try:
        function()
    except kind as error:
        assert calls[before:] == [(comm, error.error_code)], (calls, error)
    else:
        raise AssertionError(kind)

def receive(count):
    requests = [comm.Irecv(bytearray(1), 0, tag) for tag in range(count)]
    for tag in range(count):
        comm.Send(b"long", 0, tag)
    assert len(calls) == done, "not before it is completed"
    return requests

done = 0
fails(lambda: comm.Send(b"", 1), MPI.InvalidRankError)
done = 1
fails(receive(1)[0].Wait, MPI.TruncationError)
done = 2
fails(receive(1)[0].Test, MPI.TruncationError)
done = 3
requests = receive(2)
fails(lambda: MPI.Request.Waitall(requests), MPI.InStatusError)
done = 4
prequest = comm.Recv_init(bytearray(1), 0, 5)
prequest.Start()
comm.Send(b"long", 0, 5)
fails(prequest.Wait, MPI.TruncationError)
saved, calls = calls, []
comm.Set_errhandler(ERRORS_RETURN)
try:
    comm.Send(b"", 1)
except MPI.InvalidRankError:
    print(len(calls), [code for _, code in saved])

# Calls without a communicator use the handler of the world, which serves COMM_NULL, too; not those of others.
other = comm.Dup()
comm.Set_errhandler(comm.Create_errhandler(lambda comm, code: calls.append((comm, code))))
for call, kind in (
    (lambda: MPI.INT.Create_contiguous(-1), MPI.InvalidCountError),
    (MPI.DATATYPE_NULL.Commit, MPI.InvalidTypeError),
    (lambda: other.Send(b"", 1), MPI.InvalidRankError),
    (lambda: MPI.COMM_NULL.Send(b"", 0), MPI.InvalidCommError),
):
    try:
        call()
    except kind:
        continue
    raise AssertionError(kind)
assert calls == [(comm, MPI.ERR_COUNT), (comm, MPI.ERR_TYPE), (comm, MPI.ERR_COMM)], calls
"""
    codes = [errors.ERR_RANK, errors.ERR_TRUNCATE, errors.ERR_TRUNCATE, errors.ERR_IN_STATUS, errors.ERR_TRUNCATE]
    body += ATTRIBUTES + "MPI.Finalize()\n"
    assert site.ok(1, program(body)).out == f"0 {codes}\ndeleted True 0\n"


@pytest.mark.spec("S7.2-2", "S2.7-3")
@pytest.mark.parametrize(
    ("call", "code"),
    [("comm.send('x', 99)", errors.ERR_RANK), ("comm.Irecv(bytearray(1), 0, 9).Wait()", errors.ERR_TRUNCATE)],
)
def test_fatal_errors_end_the_job(site: Site, call: str, code: int) -> None:
    """All processes end with the error code as exit status, as with Abort; nothing after the call is executed."""
    body = f"""
comm.Set_errhandler(ERRORS_ARE_FATAL)
if comm.rank == 0:
    comm.recv(source=1)
else:
    comm.Isend(b"long", 1, 9)
    comm.Isend(b"long", 0, 9)
    try:
        {call.replace("0, 9", "1, 9")}
    finally:
        print("still here")
"""
    result = site.run(2, program(body))
    assert (result.code, result.out) == (code, "")
    assert f"rank 1 called MPI_Abort({code})" in result.err
    assert f"aiompi.errors.{errors.ERROR_CLASSES[code].__name__}: " in result.err
