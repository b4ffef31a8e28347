"""Calls everything that the native core has, with odd arguments, on objects made with and without `__init__`.

    python odd_calls.py SEED CALLS FILE

The last call is in FILE, so that it is known after a crash. What a call raises does not matter.
"""

from __future__ import annotations

import gc
import inspect
import mmap
import os
import random
import sys
import warnings
from typing import Any

import numpy as np

from aiompi.core import _native as native
from aiompi.status import Status

#: classes that are given processes and descriptors, which must not be those of others
RESTRAINED = ("PeerProcess", "Ring")
CLASSES = [each for each in vars(native).values() if isinstance(each, type) and each.__module__ == native.__name__]
FUNCTIONS = [
    native.contents, native.incoming, native.outgoing, native.overlap, native.plain_bytes, native.look,
    native.pending_of, native.drop_done, native.take_all,
]  # fmt: skip
SIZE = 4096
#: arguments that are memory
MEMORY = (
    "memory", "spec", "sendspec", "recvspec", "unit", "segment", "one", "other", "landing", "elements", "before",
    "origin", "compare", "result",
)  # fmt: skip
OPERATIONS = [object() for _ in range(12)]
#: attributes of every object, which are not those of the core
COMMON = {*dir(type("Plain", (), {})), "__class_getitem__"} - {"__init__"}


class Odd:
    """An object that is everything, runs other calls while it is asked for something, and lies about its length."""

    collectives = 0
    stepping = degraded = _done = False

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._caller.value()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._caller.nested()
        return self._caller.value()

    def __len__(self) -> int:
        self._caller.nested()
        return self._caller.random.choice((0, 1, 2, 70, 10**5))

    def __iter__(self) -> Any:
        return iter([self._caller.value() for _ in range(self._caller.random.choice((0, 1, 3, 80)))])

    def __index__(self) -> int:
        self._caller.nested()
        return self._caller.random.choice((-1, 0, 1, 2**31, 2**63))

    def __bool__(self) -> bool:
        self._caller.nested()
        return self._caller.random.random() < 0.5

    def __buffer__(self, flags: int) -> memoryview:
        self._caller.nested()
        return memoryview(bytearray(self._caller.random.choice((0, 8, 3000))))


class Caller:
    """Makes calls at random."""

    def __init__(self, seed: int, log: int) -> None:
        self.random = random.Random(seed)
        self.log = log
        self.depth = 0
        self.subclasses = []
        for cls in CLASSES:
            try:
                self.subclasses.append(type("Sub" + cls.__name__, (cls,), {}))
            except TypeError:
                continue
        self.objects: list[Any] = []
        self.plain: list[Any] = [
            None, True, -1, 0, 1, 2, 7, 64, 255, 4096, 2**31 - 1, -(2**31), 2**32, 2**40, 2**63 - 1, -(2**63),
            2**64 - 1, 2**70, 0.5, "", b"", b"x" * 48, b"y" * 3000, (), (1,), [], [1, 2], {}, {0: 1},
            {1: 2**62}, set(), set(CLASSES), Status(), len, int, object(), Odd(self), (1, 0, 0, 1, 0, 3, 0, 0),
        ]  # fmt: skip

    def segment(self) -> Any:
        """Return memory for rings and slots; a part of it has been written to at random."""
        memory = mmap.mmap(-1, 4 * SIZE)
        if self.random.random() < 0.7:
            for _ in range(self.random.choice((1, 20))):
                at = self.random.randrange(0, 4 * SIZE, 8)
                memory[at : at + 8] = self.random.choice((1, 3, 0x101, 0x204, 255, 2**32, 2**63, 64)).to_bytes(
                    8, "little"
                )
        return memory

    def memory(self) -> Any:
        kind = self.random.randrange(9)
        length = self.random.choice((0, 1, 8, 64, 3000, 20000, 300000))
        if kind == 0:
            return memoryview(bytearray(length))
        if kind == 1:
            view = memoryview(bytearray(length))
            view.release()
            return view
        if kind == 2:
            return np.zeros(length // 8, self.random.choice(("f8", "i4", ">i4", "O", "?", "c16")))
        if kind == 3:
            return np.zeros((length // 8, 2), "f8")[:, 0]
        if kind == 4:
            return bytearray(length)
        if kind == 5:
            return memoryview(np.zeros(length // 8))
        if kind == 6:
            return memoryview(b"z" * length)[:: self.random.choice((1, 2, -1))]
        if kind == 7:
            return [self.memory(), Odd(self)] if self.depth > 3 else [self.memory(), self.value()]
        return native.Span()

    def value(self) -> Any:
        """Return something."""
        kind = self.random.random()
        if kind < 0.35:
            return self.random.choice(self.plain)
        if kind < 0.5:
            return self.memory()
        if kind < 0.6:
            return [self.random.choice(self.plain) for _ in range(self.random.choice((1, 2, 70)))]
        return self.random.choice(self.objects) if self.objects else None

    def ring(self) -> Any:
        return native.Ring(self.segment(), SIZE, -1, self.random.random() < 0.5)

    def slots(self) -> Any:
        rings = [None, self.random.choice((None, self.ring()))]
        cls = self.random.choice((native.Slots, native.SlotGroup))
        exchanges = native.SlotExchanges(self.value(), [])
        engine = native.ProgressBase(self.value())
        group = cls(engine, exchanges, 1, self.random.randrange(2), 64, [self.segment(), self.segment()], rings, [0, 1])
        group.use(Odd(self), False, False)
        return group

    def make(self) -> None:
        """Add an object, and forget an old one."""
        kind = self.random.random()
        try:
            if kind < 0.15:
                made = self.ring()
            elif kind < 0.25:
                made = self.slots()
            elif kind < 0.3:
                made = native.Recorder(bytearray(4096 + 64 * 4), Odd(self))
            elif kind < 0.35:
                made = native.WindowBase()
                made.prepare(3, OPERATIONS)
                made.place(1, memoryview(bytearray(64)), 0, 64, self.random.choice((1, 8, 2**62)))
                made.permit(1, 7)
            else:
                cls = self.random.choice(CLASSES + self.subclasses)
                restrained = any(base.__name__ in RESTRAINED for base in cls.__mro__)
                if restrained:
                    made = native.PeerProcess(-1)
                elif kind < 0.6:
                    made = cls.__new__(cls)
                else:
                    made = cls(*self.arguments(cls))
        except (Exception, SystemError):
            return
        self.objects.append(made)
        if len(self.objects) > 60:
            del self.objects[self.random.randrange(60)]

    def arguments(self, function: Any) -> list[Any]:
        """Return odd arguments, in most cases as many as a function takes."""
        try:
            names = [each.name for each in inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):
            names = [""] * self.random.randrange(8)
        if self.random.random() < 0.05:
            names = names[1:]
        return [
            self.suitable(each) if self.random.random() < 0.7 or each == "seconds" else self.value() for each in names
        ]

    def suitable(self, name: str) -> Any:
        """Return a value of the kind that an argument or an attribute of this name has."""
        kinds = {
            "ring": native.Ring, "_ring": native.Ring, "process": native.PeerProcess, "receive": native.PostedReceive,
            "message": native.MessageBase, "frame": native.Outgoing, "peer": native.PeerBase,
            "matcher": native.MatchQueues, "sink": native.PeerBase, "_receive_class": type,
            "engine": native.ProgressBase, "request": native.Request, "operation": native.Request,
            "_core": native.Request, "recorder": native.Recorder,
        }  # fmt: skip
        if name in kinds:
            found = [each for each in self.objects if isinstance(each, kinds[name])]
            return self.random.choice(found or [native.PostedReceive])
        if name in MEMORY:
            return self.memory()
        if name == "requests":
            found = [each for each in self.objects if isinstance(each, native.RequestHandle)]
            return [*found, *found[: self.random.randrange(2)]]
        if name == "op":
            return self.random.choice(OPERATIONS)
        if name == "payload":
            view = self.memory()
            return self.random.choice((view, [view], [memoryview(b"abc")] * self.random.choice((1, 70)), b"abc"))
        if name == "header":
            kind = self.random.choice((1, 2, 4, 7, 255))
            return self.random.choice((kind.to_bytes(48, "little"), (kind, 0, 0, 1, 0, 3, 0, 0), ()))
        if name in ("_peers", "pollers", "pieces", "_contexts", "targets", "sources"):
            found = self.random.sample(self.objects, min(len(self.objects), self.random.choice((0, 1, 3))))
            return dict.fromkeys((0, 1), found[0]) if found and name in ("_contexts", "sources") else found
        if name == "limits":
            return {self.random.randrange(18): self.random.choice((-1, 0, 64, 2**20, 2**62))}
        if name == "looks":
            return range(1)
        if name == "seconds":
            return 1e-4
        if name in ("comm", "channel", "sync"):
            return Odd(self)
        return self.random.choice((-1, 0, 1, 2, 3, 64, 300, 2**31, 2**63 - 1))

    def nested(self) -> None:
        """Make a call in the midst of another one."""
        if self.depth < 4 and self.random.random() < 0.5:
            self.call()

    def call(self) -> None:
        """Make one call."""
        self.depth += 1
        try:
            if self.random.random() < 0.1 or not self.objects:
                self.apply(self.random.choice(FUNCTIONS), "")
                return
            thing = self.random.choice(self.objects)
            names = [each for each in dir(type(thing)) if each not in COMMON and not each.startswith("__pyx")]
            name = self.random.choice(names)
            if self.random.random() < 0.25:
                setattr(thing, name, self.suitable(name) if self.random.random() < 0.7 else self.value())
            else:
                found = getattr(thing, name)
                if callable(found) and not isinstance(found, Odd):
                    self.apply(found, f"{type(thing).__name__}.")
        except (Exception, SystemError):
            return
        finally:
            self.depth -= 1

    def apply(self, function: Any, what: str) -> None:
        args = self.arguments(function)
        text = f"{what}{getattr(function, '__name__', function)} {[type(each).__name__ for each in args]}"
        os.pwrite(self.log, f"{text[:990]:1000}".encode(), 0)
        made = function(*args)
        if type(made) in CLASSES and len(self.objects) < 60 and type(made).__name__ not in RESTRAINED:
            self.objects.append(made)
        elif hasattr(made, "__next__") and self.random.random() < 0.5:
            next(made)


def main() -> None:
    """Make the calls that the command line asks for."""
    seed, calls, log = int(sys.argv[1]), int(sys.argv[2]), os.open(sys.argv[3], os.O_RDWR | os.O_CREAT)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    caller = Caller(seed, log)
    for number in range(calls):
        if number % 3 == 0:
            caller.make()
        caller.call()
        if number % 500 == 0:
            gc.collect()


if __name__ == "__main__":
    main()
