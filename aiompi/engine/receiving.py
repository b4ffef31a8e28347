"""`Receiving`: how a rank starts receives and probes."""

from __future__ import annotations

from aiompi.core.progress import Progress
from aiompi.engine.failure import FailureHandler
from aiompi.engine.matching import Matcher
from aiompi.engine.message import Message
from aiompi.engine.probe import Probe
from aiompi.engine.receive import Receive
from aiompi.engine.withheld import WithholdingEndpoint, asks


class Receiving(Progress):
    """Matches receives and probes with messages that have arrived, or lets them wait. `Engine` has the attributes."""

    failure: FailureHandler
    withholding: set[WithholdingEndpoint]

    def receive(self, receive: Receive) -> None:
        """Start a receive: match it with an unexpected message, or post it."""
        if self._dropped:
            self.finalizers.run()
        if self.error is not None:
            receive.fail(self.error)
            return
        matcher = receive.matcher
        try:
            if matcher.arrivals or matcher.early:
                message = matcher.find(receive.want_source, receive.want_tag)
                if message is not None:
                    message.peer.match(message, receive)
                    return
            if self.degraded:
                error = self.failure.error_of(receive.peer_rank, receive.matcher)
                if error is not None:
                    receive.fail(error)
                    return
            self.post(receive)
        except BaseException:
            # The caller does not get the receive, so no message may arrive in its memory.
            if not receive.cancel() and receive.landing is not None:
                receive.withdraw()
            raise

    def post(self, receive: Receive) -> None:
        """Post a receive."""
        receive.matcher.post(receive)
        if self.withholding:
            self.ask(receive.matcher, receive.want_tag, receive.peer_rank)

    def ask(self, matcher: Matcher, tag: int, peer_rank: int) -> None:
        """Ask withholding peers for a message that a receive or a probe can match.

        Args:
            peer_rank: rank of the world, or ANY_SOURCE.
        """
        for peer in [*self.withholding]:
            if peer.questions is not None and asks(matcher, peer, peer_rank):
                peer.questions.ask(matcher.context, tag)

    def receive_matched(self, message: Message, receive: Receive) -> None:
        """Start to receive a message that a matched probe has taken."""
        if self.error is not None:
            receive.fail(self.error)
        elif (error := message.payload_error) is not None:
            receive.fail(error)
        else:
            message.peer.deliver(message, receive)

    def probe(self, probe: Probe) -> None:
        """Start a probe."""
        if self._dropped:
            self.finalizers.run()
        message = probe.matcher.find(probe.want_source, probe.want_tag)
        error = self.failure.error_of(probe.peer_rank, probe.matcher)
        if message is not None:
            if probe.takes:
                message.extract()
            probe.found(message)
        elif error is not None:
            probe.fail(error)
        else:
            probe.matcher.probes.append(probe)
            if self.withholding:
                self.ask(probe.matcher, probe.want_tag, probe.peer_rank)

    def iprobe(self, matcher: Matcher, source: int, tag: int, peer_rank: int) -> Message | None:
        """Return the message that a receive would get now, or None if no message matches (MPI_Iprobe, section 3.8).

        Raises:
            ProcessFailedError: there is no such message, and none can come.
        """
        if self._dropped:
            self.finalizers.run()
        message = matcher.find(source, tag)
        if message is None:
            error = self.failure.error_of(peer_rank, matcher)
            if error is not None:
                raise error
            if self.withholding:
                self.ask(matcher, tag, peer_rank)
        return message
