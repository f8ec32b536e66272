"""Records the Fetch responses that brokers send, and the batches that their logs have meanwhile."""

from collections.abc import Sequence
from typing import Final

from odradek.sim.fetch_history import FetchHistory, Sent, SentResponse, Write
from odradek.sim.log_history import LogHistory
from odradek.sim.node_host import NodeHost
from odradek.sim.socket_end import SocketEnd
from odradek.sim.wire_names import Exchange
from odradek.sim.world import World
from odradek.wire.apis import ApiKey

_READ_COMMITTED: Final = 1
# A smaller response has no records.
_WITH_RECORDS_BYTES_MIN: Final = 100


class FetchRecorder:
    def __init__(self, world: World, nodes: Sequence[NodeHost]) -> None:
        self._world: Final = world
        self._client_ports: Final = {node.name: node.planned.client_port for node in nodes}
        self._idle_seconds_max: Final = {node.name: node.config.connections_max_idle_ms / 1000 for node in nodes}
        next_place = world.scheduler.next_place
        self.history: Final = FetchHistory({node.name: LogHistory(node.computer.disk, next_place) for node in nodes})
        self._observers: Final[list[_Observer]] = []
        world.network.response_watchers[ApiKey.FETCH] = self._on_response

    def finish(self) -> None:
        """Called at the end of the run."""
        for log in self.history.logs.values():
            self.history.topic_names |= log.topic_names()
        for observer in self._observers:
            observer.finish(self._world.now)

    def _on_response(self, end: SocketEnd, exchange: Exchange, size: int) -> "_Observer":
        response = SentResponse(
            sender=exchange.responder,
            receiver=exchange.requester,
            name=str(exchange),
            version=exchange.version,
            requested=exchange.place,
            size=size,
            place=self._world.scheduler.next_place(),
            seconds=self._world.now,
            idle_seconds_max=self._idle_seconds_max.get(exchange.responder, 0.0),
        )
        observer = _Observer(response, end, exchange)
        # The metadata log, which controllers send, has a checker of its own.
        if end.port == self._client_ports.get(exchange.responder):
            self._observers.append(observer)
            self.history.responses.append(response)
        return observer


class _Observer:
    def __init__(self, response: SentResponse, end: SocketEnd, exchange: Exchange) -> None:
        self._response: Final = response
        self._end: Final = end
        self._exchange: Final = exchange

    def on_write(self, count: int) -> None:
        writes = self._response.writes
        start = writes[-1].end if writes else 0
        writes.append(Write(self._end.process.scheduler.next_place(), start, start + count))

    def on_send(self, data: bytes) -> None:
        self._response.data += data
        self._response.sent.append(self._sent(self._end.process.scheduler.now))

    def finish(self, now: float) -> None:
        response = self._response
        response.ended = self._sent(now if self._end.ended_seconds is None else self._end.ended_seconds)
        if response.size >= _WITH_RECORDS_BYTES_MIN:
            request = self._exchange.read_request()
            state = getattr(request, "replica_state", None)
            response.is_for_follower = (request.replica_id if state is None else state.replica_id) >= 0
            response.is_read_committed = getattr(request, "isolation_level", 0) == _READ_COMMITTED

    def _sent(self, seconds: float) -> Sent:
        return Sent(seconds, self._end.process.paused_until)
