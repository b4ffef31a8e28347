"""Encoding and decoding of large objects in slices, between which an event loop runs other callbacks.

`Sliced` is the request of such a computation. `SendQueue` keeps the order of the messages to a peer while one of them
is still being encoded.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi.core import Request
from aiompi.engine.send import STANDARD, Mode, Send
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.engine.endpoint import Endpoint
    from aiompi.engine.engine import Engine

#: seconds of a slice
SLICE = 4e-3

T_co = TypeVar("T_co", covariant=True)


class Sliced(Request[T_co]):
    """A computation in steps. In each turn of the event loop, one slice of one computation runs.

    Args:
        steps: the computation, which yields between its steps and returns the result.
    """

    __slots__ = ("_rank", "_steps")

    def __init__(self, engine: Engine, steps: Generator[None, None, T_co]) -> None:
        super().__init__(engine)
        self._rank = engine
        self._steps = steps
        engine.copy_queue.begin_later(self._slice)

    def _slice(self) -> bool:
        """Take steps for the time of a slice; return True if steps remain.

        The garbage collector is off during a slice, because the many new objects would make it scan all objects
        repeatedly.
        """
        if self._done:  # an interrupt has ended it
            return False
        now, steps = self._rank.driver.now, self._steps
        end, collects = now() + SLICE, gc.isenabled()
        gc.disable()
        try:
            next(steps)
            while now() < end:
                next(steps)
        except StopIteration as stop:
            self.complete(stop.value)
        except Exception as error:
            self.fail(error)
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            if collects:
                gc.enable()
        return not self._done

    def withdraw(self) -> None:
        """Stop; nothing is called back."""
        self._callbacks = None
        self._rank.copy_queue.drop(self._slice)


class HeldSend(Send):
    """A send that begins when its own message and all messages before it have been encoded.

    Attributes:
        encoding: computation that makes the message; None once the message exists.
    """

    __slots__ = ("_arguments", "_queue", "_send", "encoding")

    def __init__(
        self,
        engine: Engine,
        queue: SendQueue,
        payload: Payload,
        nbytes: int,
        arguments: tuple[int, int, int, Mode, int],
    ) -> None:
        super().__init__(engine, queue.peer, payload, nbytes)
        self._arguments = arguments
        self.context = arguments[0]
        self._queue = queue
        self.encoding: Sliced[tuple[Payload, int]] | None = None
        self._send: Request[None] | None = None
        engine.held_sends.add(self)

    def encode(self, steps: Generator[None, None, tuple[Payload, int]]) -> None:
        """Make the message by these steps first."""
        self.encoding = encoding = Sliced(self.peer.engine, steps)
        encoding.when_done(self._encoded)

    def _encoded(self, encoding: Request[Any]) -> None:
        self.encoding = None
        error = encoding.exception()
        if error is not None:
            self.fail(error)
            return
        self.payload, self.nbytes = encoding.result()
        self._queue.advance()

    def begin(self) -> None:
        """Hand the message to the peer."""
        self.peer.engine.held_sends.discard(self)
        try:
            self._send = send = self.peer.send(self.payload, self.nbytes, *self._arguments)
        except Exception as error:
            self.fail(error)
            return
        if send.done():
            self._ended(send)
        else:
            send.when_done(self._ended)

    def _ended(self, send: Request[None]) -> None:
        error = send.exception()
        if error is not None:
            self.fail(error)
        elif send.cancelled():
            self.recalled()
        else:
            self._complete_once()

    def _finish(self) -> None:
        if self.encoding is not None:
            self.encoding.withdraw()
            self.encoding = None
        self.peer.engine.held_sends.discard(self)
        super()._finish()
        if self._send is None:
            self._queue.remove(self)

    def cancel(self) -> bool:
        if self._done:
            return False
        if self._send is not None:
            return self._send.cancel()
        self.recalled()
        return True

    def withdraw(self) -> None:
        if self._send is None:
            self.cancel()
        else:
            self._send.withdraw()

    def detach(self) -> None:
        if isinstance(self._send, Send):
            self._send.detach()


class SendQueue:
    """Replaces a peer in a communicator while a message to it is being encoded, and holds later messages back.

    Args:
        peer: the endpoint of the peer.
        emptied: called when the queue is empty, so that the communicator can use the peer again.
    """

    __slots__ = ("_emptied", "_sends", "_steps", "peer")

    def __init__(self, peer: Endpoint, emptied: Callable[[], object]) -> None:
        self.peer = peer
        self._emptied = emptied
        self._sends: deque[HeldSend] = deque()
        self._steps: Generator[None, None, tuple[Payload, int]] | None = None

    def expect(self, steps: Generator[None, None, tuple[Payload, int]] | None) -> None:
        """Let these steps make the message of the next call of `send`, whose payload is empty; None cancels this."""
        self._steps = steps
        if not self._sends and steps is None:
            self._emptied()

    def send(
        self, payload: Payload, nbytes: int, context: int, source: int, tag: int, mode: Mode = STANDARD, note: int = 0
    ) -> Request[None]:
        """Start a message behind the messages in the queue; see `Endpoint.send`."""
        send = HeldSend(self.peer.engine, self, payload, nbytes, (context, source, tag, mode, note))
        self._sends.append(send)
        steps, self._steps = self._steps, None
        if steps is not None:
            send.encode(steps)
        return send

    def advance(self) -> None:
        """Begin the sends that need not wait any more."""
        sends = self._sends
        while sends and sends[0].encoding is None:
            sends.popleft().begin()
        if not sends:
            self._emptied()

    def remove(self, send: HeldSend) -> None:
        """Remove a send that ends before it has begun, for example by cancellation."""
        if send in self._sends:
            self._sends.remove(send)
            self.advance()
