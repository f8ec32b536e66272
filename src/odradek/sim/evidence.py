"""Collected while a run lasts: what nodes promise to each other, and what their disks hold at that moment.

Promises are read off the network as they are sent: a granted vote, and a fetch of the metadata log, which says that
everything below its offset is safe. Judging is left to the checkers.
"""

from collections.abc import Sequence
from typing import Final

from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from odradek.protocol.headers import read_request_header, skip_tagged_fields
from odradek.protocol.schemas import Message, schema
from odradek.sim.clients.onlooker import CONFIG
from odradek.sim.history import Acknowledgement, History, View, Vote
from odradek.sim.node_host import NodeHost
from odradek.sim.wire_names import Exchange
from odradek.sim.world import World

FETCH: Final = 1
VOTE: Final = 52
_CORRELATION_ID_BYTES: Final = 4


class Evidence:
    def __init__(self, world: World, nodes: Sequence[NodeHost], history: History) -> None:
        self._world: Final = world
        self._history: Final = history
        self._disks: Final = {node.name: node.metadata_disk for node in nodes}
        self._voters: Final = frozenset(node.name for node in nodes if node.planned.is_voter)
        for node in nodes:
            # Whatever it was doing when it ended, its disk says how far it had come.
            node.when_ended(lambda node=node: self.look_at(node.name))  # type: ignore[misc]
        world.network.watchers[VOTE] = self._saw_vote
        world.network.watchers[FETCH] = self._saw_fetch

    # ---- disks

    def look_at(self, node: str) -> None:
        self._history.metadata_copies.append(self._disks[node].copy(self._world.now))
        self._note_state(node)

    def look_at_all(self, topics: Sequence[str]) -> None:
        """After healing: every node has the whole log, and so these topics as their author left them."""
        now = self._world.now
        for node, disk in self._disks.items():
            self.look_at(node)
            found = disk.topics()
            for topic in topics:
                there = found.get(topic)
                view = View(topic=topic, began=now, ended=now, exists=there is not None, broker=f"the disk of {node}")
                if there is not None:
                    view.partitions = there.partitions
                    view.value = there.configs.get(CONFIG)
                self._history.changes.append(view)

    def _note_state(self, node: str) -> None:
        state = self._disks[node].durable_state(self._world.now)
        if state is not None:
            self._history.quorum_states.append(state)

    # ---- the network

    def _saw_vote(self, exchange: Exchange, response: bytes | None) -> None:
        if response is None:
            return
        asked = _partition(_request(exchange))
        answer = _partition(_response(exchange, response))
        if asked is None or answer is None or not answer.vote_granted or getattr(asked, "pre_vote", False):
            return
        self._note_state(exchange.answerer)
        vote = Vote(
            voter=exchange.answerer,
            candidate_id=asked.replica_id,
            epoch=asked.replica_epoch,
            seconds=self._world.now,
            durable=self._disks[exchange.answerer].durable_state(self._world.now),
        )
        self._history.votes.append(vote)

    def _saw_fetch(self, exchange: Exchange, response: bytes | None) -> None:
        if response is not None or exchange.asker not in self._voters or exchange.answerer not in self._voters:
            return
        for topic in _request(exchange).topics:
            if getattr(topic, "topic_id", None) == METADATA_TOPIC_ID or getattr(topic, "topic", "") == METADATA_TOPIC:
                self._history.acknowledgements.append(
                    Acknowledgement(
                        voter=exchange.asker,
                        offset=topic.partitions[0].fetch_offset,
                        durable_end_offset=self._disks[exchange.asker].durable_end_offset(),
                        seconds=self._world.now,
                    )
                )


def _request(exchange: Exchange) -> Message:
    chosen = schema(exchange.api_key, exchange.version)
    start = read_request_header(bytearray(exchange.request)).end
    if chosen.flexible:
        start = skip_tagged_fields(exchange.request, start)
    return chosen.read_request(exchange.request, start)[0]


def _response(exchange: Exchange, frame: bytes) -> Message:
    chosen = schema(exchange.api_key, exchange.version)
    flexible = chosen.response_header_flexible
    start = skip_tagged_fields(frame, _CORRELATION_ID_BYTES) if flexible else _CORRELATION_ID_BYTES
    return chosen.read_response(frame, start)[0]


def _partition(message: Message) -> Message | None:
    """The one of the metadata log: nothing else is voted on."""
    return next((partition for topic in message.topics for partition in topic.partitions), None)
