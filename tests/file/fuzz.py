"""Compares random accesses to files with a model: every byte of the file, of all buffers, and every count.

    aiompi-launch -n 4 python tests/file/fuzz.py --cases 2500

Cases have views of several kinds, every kind of access, memory with gaps, and files that end early. All ranks draw the
same numbers, so that each knows what all do. Another implementation of MPI with mpi4py's names can be compared with the
model as well; the last line has a digest of all files, which is the same for implementations that agree:

    mpiexec -n 4 python tests/file/fuzz.py --module mpi4py.MPI --cases 2500 --native
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import os
import random
import tempfile
from typing import Any

import numpy as np

ETYPES = {"BYTE": "u1", "INT16_T": "i2", "INT": "i4", "DOUBLE": "f8"}
HINTS = [
    {},
    {"romio_cb_write": "enable", "romio_cb_read": "enable"},
    {"romio_cb_write": "enable", "romio_cb_read": "enable", "cb_buffer_size": "97", "cb_nodes": "3"},
    {"romio_cb_write": "disable", "romio_cb_read": "disable"},
]


@dataclasses.dataclass
class View:
    """A view as the model sees it.

    Attributes:
        disp: bytes before the first file type.
        etype: name of the elementary type.
        slots: the elementary types of a file type that the view has, by their numbers.
        extent: of a file type, in elementary types.
        external: True for external32.
    """

    disp: int
    etype: str
    slots: list[int]
    extent: int
    external: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype((">" if self.external else "=") + ETYPES[self.etype])

    def place(self, number: int) -> int:
        """Return the byte of the file where an elementary type of the view is."""
        tile, slot = divmod(number, len(self.slots))
        return self.disp + (tile * self.extent + self.slots[slot]) * self.dtype.itemsize

    def places(self, start: int, count: int) -> list[int]:
        return [self.place(number) for number in range(start, start + count)]


class Model:
    """The file as it should be."""

    def __init__(self) -> None:
        self.content = bytearray()

    def resize(self, size: int) -> None:
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def write(self, view: View, start: int, values: np.ndarray[Any, Any]) -> None:
        width = view.dtype.itemsize
        data = values.astype(view.dtype).tobytes()
        for number, place in enumerate(view.places(start, len(values))):
            self.resize(max(len(self.content), place + width))
            self.content[place : place + width] = data[number * width : (number + 1) * width]

    def read(self, view: View, start: int, count: int) -> tuple[np.ndarray[Any, Any], int]:
        """Return the values before the end of the file, and their bytes, which may end inside of a value."""
        width, found, nbytes = view.dtype.itemsize, bytearray(), 0
        for place in view.places(start, count):
            part = self.content[place : place + width]
            nbytes += len(part)
            if len(part) < width:
                break
            found += part
        return np.frombuffer(bytes(found), view.dtype).astype(ETYPES[view.etype]), nbytes


class Case:
    """One file, and what all ranks do with it."""

    def __init__(self, mpi: Any, draw: random.Random, path: str, *, native: bool) -> None:
        self.mpi, self.draw, self.comm, self.path, self.native = mpi, draw, mpi.COMM_WORLD, path, native
        self.size, self.rank = self.comm.size, self.comm.rank
        self.model = Model()
        info = mpi.Info.Create(draw.choice(HINTS))
        mode = mpi.MODE_CREATE | mpi.MODE_RDWR | mpi.MODE_DELETE_ON_CLOSE
        self.file = mpi.File.Open(self.comm, path, mode, info)
        self.types: list[Any] = []
        self.shared = 0
        self.positions = [0] * self.size
        self.views: list[View] = []
        # What lies between pieces behind the end of the file is undefined, and others write old memory there.
        self.least = 250_000 if native else 0

    def run(self) -> bytes:
        """Do several steps; return a digest of the file."""
        if self.least:
            self.file.Set_size(self.least)
            self.model.resize(self.least)
        self.set_view()
        for _ in range(self.draw.randint(2, 7)):
            step = self.draw.choice(
                [
                    self.set_view,
                    self.set_size,
                    self.seek,
                    *[self.access] * 8,
                    *([] if self.least else [self.by_shared] * 2),
                ]
            )
            step()
            self.comm.Barrier()
            with open(self.path, "rb") as file:
                content = file.read()
            assert content == self.model.content, f"after {step.__name__}: {_difference(content, self.model.content)}"
            self.comm.Barrier()
        self.file.Close()
        for kind in self.types:
            kind.Free()
        return hashlib.sha256(self.model.content).digest()

    def set_view(self) -> None:
        draw, etype = self.draw, self.draw.choice([*ETYPES])
        disp, external = draw.choice([0, 0, 3, 64]), not self.native and draw.random() < 0.3
        kind = draw.choice(["whole", "cyclic", "scattered", "blocks"])
        self.views = [View(disp, etype, slots, extent, external) for slots, extent in self._parts(kind)]
        view, basic = self.views[self.rank], getattr(self.mpi, etype)
        filetype = basic
        if kind != "whole":
            width = basic.Get_size()
            made = basic.Create_indexed_block(1, view.slots)
            filetype = made.Create_resized(0, view.extent * width).Commit()
            self.types += [made, filetype]
        self.file.Set_view(
            disp,
            basic,
            filetype,
            "external32" if external else draw.choice(["native", "internal"][: 1 + (not self.native)]),
        )
        self.positions, self.shared = [0] * self.size, 0

    def _parts(self, kind: str) -> list[tuple[list[int], int]]:
        """Return for each rank the slots of its file type, and their number with gaps; no slot belongs to two ranks."""
        draw, size = self.draw, self.size
        if kind == "whole":
            return [([0], 1)] * size
        if kind == "cyclic":
            block = draw.randint(1, 5)
            return [([*range(rank * block, (rank + 1) * block)], size * block) for rank in range(size)]
        if kind == "blocks":
            rows, columns = draw.randint(1, 4), draw.randint(1, 4)
            width = columns * size
            return [
                ([row * width + rank * columns + i for row in range(rows) for i in range(columns)], rows * width)
                for rank in range(size)
            ]
        extent = draw.randint(size, 12 * size)
        owners = [*range(size), *(draw.randrange(-1, size) for _ in range(extent - size))]
        draw.shuffle(owners)
        return [([slot for slot, owner in enumerate(owners) if owner == rank], extent) for rank in range(size)]

    def set_size(self) -> None:
        size = self.least + self.draw.randint(0, 500)
        self.file.Set_size(size)
        self.model.resize(size)

    def seek(self) -> None:
        whence = self.draw.choice(["SEEK_SET", "SEEK_CUR", "SEEK_END"][: 2 if self.least else 3])
        offset = self.draw.randint(0, 20)
        self.comm.Barrier()
        self.file.Seek(offset, getattr(self.mpi, whence))
        for rank, view in enumerate(self.views):
            base = 0
            if whence == "SEEK_CUR":
                base = self.positions[rank]
            elif whence == "SEEK_END":
                while view.place(base) < len(self.model.content):
                    base += 1
            self.positions[rank] = base + offset
        assert self.file.Get_position() == self.positions[self.rank]
        assert self.file.Get_byte_offset(offset) == self.views[self.rank].place(offset)

    def access(self) -> None:
        """Have all ranks write, or read, at offsets of their own."""
        draw = self.draw
        writing, pointer, how = (
            draw.random() < 0.55,
            draw.random() < 0.5,
            draw.choice(["", "_all", "i", "i_all", "split"]),
        )
        counts = [draw.choice([0, draw.randint(1, 30), draw.randint(1, 200)]) for _ in range(self.size)]
        whole = self.views[0].extent == 1
        if pointer and whole and writing:
            pointer = False  # ranks that see the same would write the same bytes
        starts = [*self.positions] if pointer else [draw.randint(0, 40) for _ in range(self.size)]
        if whole and writing:
            starts = np.cumsum([starts[0], *counts[:-1]]).tolist()
        if pointer:
            self.positions = [position + count for position, count in zip(self.positions, counts, strict=True)]
        verb = "Write" if writing else "Read"
        name = {"": verb, "_all": f"{verb}_all", "i": f"I{verb.lower()}", "i_all": f"I{verb.lower()}_all"}.get(how)
        where = "" if pointer else "_at"
        given = () if pointer else (starts[self.rank],)

        def call(buffer: Any) -> Any:
            status = self.mpi.Status()
            if name is None:
                getattr(self.file, f"{verb}{where}_all_begin")(*given, buffer)
                getattr(self.file, f"{verb}{where}_all_end")(buffer, status)
            elif name.startswith("I"):
                head, _, tail = name.partition("_")
                getattr(self.file, f"{head}{where}{'_' * bool(tail)}{tail}")(*given, buffer).Wait(status)
            else:
                getattr(self.file, f"{verb}{where}{how}")(*given, buffer, status)
            return status

        self._move(writing, starts, counts, call)

    def by_shared(self) -> None:
        """Have all ranks write, or read, at the shared pointer, in their order."""
        whole = [View(view.disp, view.etype, [0], 1, view.external) for view in self.views]
        if any(view.extent > 1 for view in self.views):
            self.set_whole(whole[0])
        writing = self.draw.random() < 0.55
        counts = [self.draw.randint(0, 20) for _ in range(self.size)]
        starts = (self.shared + np.cumsum([0, *counts[:-1]])).tolist()
        self.shared += sum(counts)
        verb, split = "Write" if writing else "Read", self.draw.random() < 0.3

        def call(buffer: Any) -> Any:
            status = self.mpi.Status()
            if split:
                getattr(self.file, f"{verb}_ordered_begin")(buffer)
                getattr(self.file, f"{verb}_ordered_end")(buffer, status)
            else:
                getattr(self.file, f"{verb}_ordered")(buffer, status)
            return status

        self._move(writing, starts, counts, call)
        assert self.file.Get_position_shared() == self.shared

    def set_whole(self, view: View) -> None:
        basic = getattr(self.mpi, view.etype)
        self.file.Set_view(view.disp, basic, basic, "external32" if view.external else "native")
        self.views, self.positions, self.shared = [view] * self.size, [0] * self.size, 0

    def _move(self, writing: bool, starts: list[int], counts: list[int], call: Any) -> None:
        view, basic = self.views[self.rank], getattr(self.mpi, self.views[0].etype)
        gaps, seed = self.draw.random() < 0.3, self.draw.getrandbits(32)
        values = [np.random.default_rng([seed, rank]).integers(0, 100, count) for rank, count in enumerate(counts)]
        mine = values[self.rank].astype(ETYPES[view.etype])
        memory = np.zeros((len(mine), 3 if gaps else 1), ETYPES[view.etype])
        buffer: Any = memory
        if gaps:
            kind = basic.Create_vector(len(mine), 1, 3).Commit()
            self.types.append(kind)
            buffer = [memory, 1 if len(mine) else 0, kind]
        if writing:
            memory[:, 0] = mine
            status = call(buffer)
            for rank, start in enumerate(starts):
                self.model.write(self.views[rank], start, values[rank])
            assert status.Get_count(basic) == len(mine), f"{status.Get_count(basic)} of {len(mine)} were written"
            return
        memory[:] = 111
        status = call(buffer)
        found, nbytes = self.model.read(view, starts[self.rank], len(mine))
        assert memory[: len(found), 0].tolist() == found.tolist(), f"{memory[:, 0].tolist()} {found.tolist()}"
        assert (memory[len(found) + 1 :, 0] == 111).all(), "memory after the end of the file was changed"
        assert (memory[:, 1:] == 111).all(), "memory between the items was changed"
        if nbytes % view.dtype.itemsize == 0:
            count = status.Get_count(basic)
            assert count == len(found), f"{count} were read: expected {len(found)}"


def _difference(found: bytes, expected: bytes) -> str:
    """Return where two contents begin to differ."""
    same = next((i for i, (one, other) in enumerate(zip(found, expected, strict=False)) if one != other), len(found))
    return (
        f"{found[same:][:16].hex(' ')} of {len(found)} bytes instead of {expected[same:][:16].hex(' ')} at byte {same}"
    )


def main() -> None:
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", default="aiompi.MPI", help="module with mpi4py's names (%(default)s)")
    parser.add_argument("--cases", type=int, default=100, help="number of files (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="first of the seeds of the cases (%(default)s)")
    parser.add_argument(
        "--native", action="store_true", help="leave out external32, internal, shared pointers, and ends of the file"
    )
    arguments = parser.parse_args()
    mpi = importlib.import_module(arguments.module)
    comm = mpi.COMM_WORLD
    with tempfile.TemporaryDirectory() as own:
        folder = comm.bcast(own)
        digest = hashlib.sha256()
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            try:
                case = Case(mpi, random.Random(seed), os.path.join(folder, f"file{seed}"), native=arguments.native)
                digest.update(case.run())
            except BaseException:
                print(f"case {seed} with {comm.size} ranks fails", flush=True)
                raise
        comm.Barrier()
    if comm.rank == 0:
        print(f"{arguments.cases} cases with {comm.size} ranks: {digest.hexdigest()}")


if __name__ == "__main__":
    main()
