"""Collected while a run lasts: what nodes tell each other of their quorum, and what their disks hold at that moment.

Everything is read off the network as it is sent, and off the disks as it is written. Judging is left to the checkers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from odradek.sim.clients.onlooker import CONFIG
from odradek.sim.history import History, View
from odradek.sim.layout import CLIENT_PORT
from odradek.sim.metadata_disk import outline
from odradek.sim.moments import APPEND, LEAD, VOTE, Moments
from odradek.sim.node_host import NodeHost
from odradek.sim.quorum_history import (
    Acknowledgement,
    Appended,
    Candidacy,
    ClaimAccepted,
    DiskSeen,
    EpochSaid,
    Farewell,
    Heartbeat,
    HeartbeatSent,
    LeaderSpoke,
    Listening,
    LogEnd,
    QuorumSettings,
    Trouble,
    Vote,
    VoterServed,
)
from odradek.sim.stored_log import split
from odradek.sim.wire_names import Exchange
from odradek.sim.witness import Witness
from odradek.sim.world import World
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message

_METADATA_NAMES: Final = (METADATA_TOPIC_ID.bytes, METADATA_TOPIC.encode())


class Evidence:
    def __init__(
        self, world: World, nodes: Sequence[NodeHost], history: History, moments: Moments | None = None
    ) -> None:
        self._world: Final = world
        self._changes: Final = history.changes
        self._history: Final = history.quorum
        self._moments: Final = moments or Moments()
        self._disks: Final = {node.name: node.metadata_disk for node in nodes}
        self._ids: Final = {node.name: node.planned.node_id for node in nodes}
        self._witness: Final = Witness(
            world,
            self._disks,
            {node.planned.node_id: node.name for node in nodes if node.planned.is_voter},
            self._history,
        )
        self._voters: Final = frozenset(node.name for node in nodes if node.planned.is_voter)
        # Requests that are not answered yet, with when they were sent: by identity, as several look the same.
        self._open: Final[dict[int, tuple[Exchange, Message, float]]] = {}
        self._said: Final[dict[str, tuple[int, int]]] = {}
        for node in nodes:
            # Whatever it was doing when it ended, its disk says how far it had come.
            node.when_ended(lambda node=node: self.look_at(node.name))  # type: ignore[misc]
            node.machine.disk.write_watcher = self._append_watcher(node)
            node.on_service = self._service_watcher(node.name)
        world.network.watchers.update(
            {
                ApiKey.VOTE: self._saw_vote,
                ApiKey.FETCH: self._saw_fetch,
                ApiKey.BEGIN_QUORUM_EPOCH: self._saw_claim,
                ApiKey.END_QUORUM_EPOCH: self._saw_claim,
                ApiKey.BROKER_HEARTBEAT: self._saw_heartbeat,
            }
        )
        world.network.listening_watcher = self._saw_listening

    # ---- disks

    def look_at(self, node: str) -> None:
        self._history.copies.append(self._disks[node].copy(self._world.now))
        self._note_state(node)
        self._durable_end(node)

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
                self._changes.append(view)

    def _note_state(self, node: str) -> None:
        state = self._disks[node].durable_state(self._world.now)
        if state is not None:
            self._history.states.append(state)

    def _durable_end(self, node: str) -> LogEnd:
        end = self._disks[node].durable_end()
        self._history.disks.append(DiskSeen(node=node, seconds=self._world.now, end_offset=end.offset))
        return end

    def _append_watcher(self, node: NodeHost) -> Callable[[str, bytes], None]:
        directory = node.metadata_disk.directory

        def appended(path: str, data: bytes) -> None:
            if path.startswith(directory) and path.endswith(".log"):
                for batch in split(data):
                    one = Appended(node=node.name, batch=outline(batch), seconds=self._world.now)
                    self._history.appended.append(one)
                    self._witness.saw_append(one)
                    if one.batch.leader_id == node.planned.node_id:
                        self._moments.come(LEAD, node.name)
                self._moments.come(APPEND, node.name)

        return appended

    def _service_watcher(self, node: str) -> Callable[[bool], None]:
        troubles = self._history.troubles
        trouble = Trouble(one=node, other=node, began=0.0, ended=inf)
        troubles.append(trouble)

        def changed(is_there: bool) -> None:
            nonlocal trouble
            if is_there:
                troubles.remove(trouble)
                troubles.append(replace(trouble, ended=self._world.now))
            elif trouble not in troubles:
                trouble = replace(trouble, began=self._world.now)
                troubles.append(trouble)

        return changed

    # ---- elections

    def _saw_vote(self, exchange: Exchange, response: bytes | None) -> None:
        asked = _partition(exchange.asked())
        if asked is None:
            return
        is_pre_vote = getattr(asked, "pre_vote", False)
        claimed_end = LogEnd(epoch=asked.last_offset_epoch, offset=asked.last_offset)
        now = self._world.now
        if response is None:
            candidate = exchange.asker
            self._says(candidate, asked.replica_epoch)
            self._history.candidacies.append(
                Candidacy(
                    candidate=candidate,
                    candidate_id=asked.replica_id,
                    epoch=asked.replica_epoch,
                    seconds=now,
                    is_pre_vote=is_pre_vote,
                    claimed_end=claimed_end,
                    durable=self._disks[candidate].durable_state(now),
                    durable_end=self._durable_end(candidate),
                )
            )
            if not is_pre_vote:
                self._moments.come(VOTE, candidate)
            return
        answer = _partition(exchange.answered(response))
        if answer is None:
            return
        voter = exchange.answerer
        self._says(voter, answer.leader_epoch, answer.leader_id)
        if not answer.vote_granted:
            return
        self._note_state(voter)
        self._history.votes.append(
            Vote(
                voter=voter,
                voter_id=self._ids[voter],
                candidate_id=asked.replica_id,
                epoch=asked.replica_epoch,
                answered_epoch=answer.leader_epoch,
                seconds=now,
                is_pre_vote=is_pre_vote,
                claimed_end=claimed_end,
                durable_end=self._durable_end(voter),
                durable=self._disks[voter].durable_state(now),
            )
        )
        if not is_pre_vote:
            self._moments.come(VOTE, voter)

    def _saw_claim(self, exchange: Exchange, response: bytes | None) -> None:
        """BeginQuorumEpoch or EndQuorumEpoch."""
        asked = _partition(exchange.asked())
        if asked is None:
            return
        if response is None:
            self._says(exchange.asker, asked.leader_epoch, asked.leader_id)
            if exchange.api_key == ApiKey.END_QUORUM_EPOCH:
                self._history.resigned.append((asked.leader_epoch, self._world.now))
            else:
                spoke = LeaderSpoke(leader=exchange.asker, epoch=asked.leader_epoch, seconds=self._world.now)
                self._history.spoke.append(spoke)
            return
        answer = _partition(exchange.answered(response))
        if answer is None:
            return
        self._says(exchange.answerer, answer.leader_epoch, answer.leader_id)
        if answer.error_code is ErrorCode.none:
            what = "its beginning" if exchange.api_key == ApiKey.BEGIN_QUORUM_EPOCH else "its end"
            self._accepts(exchange.answerer, asked.leader_epoch, answer.leader_epoch, what)

    def _says(self, node: str, epoch: int, leader_id: int = -1) -> None:
        if epoch < 0 or self._said.get(node) == (epoch, leader_id):
            return
        self._said[node] = epoch, leader_id
        now = self._world.now
        state = self._disks[node].durable_state(now)
        self._history.epochs.append(
            EpochSaid(
                node=node,
                epoch=epoch,
                leader_id=leader_id,
                durable_epoch=0 if state is None else state.epoch,
                seconds=now,
            )
        )

    def _accepts(self, node: str, epoch: int, own_epoch: int, what: str) -> None:
        if own_epoch != epoch:
            one = ClaimAccepted(node=node, epoch=epoch, own_epoch=own_epoch, what=what, seconds=self._world.now)
            self._history.accepted.append(one)

    # ---- replication

    def _saw_fetch(self, exchange: Exchange, response: bytes | None) -> None:
        if exchange.asker not in self._ids or exchange.answerer not in self._voters:
            return
        if response is None:
            self._fetches(exchange)
        else:
            self._is_served(exchange, response)

    def _fetches(self, exchange: Exchange) -> None:
        if not any(name in exchange.request for name in _METADATA_NAMES):
            # Most are of other topics, and need not be read.
            return
        request = exchange.asked()
        topic = next((one for one in request.topics if _is_metadata(one)), None)
        if topic is None:
            return
        (partition,) = topic.partitions
        self._open[id(exchange)] = exchange, partition, self._world.now
        self._says(exchange.asker, partition.current_leader_epoch)
        if exchange.asker in self._voters:
            state = self._disks[exchange.asker].durable_state(self._world.now)
            self._history.acknowledgements.append(
                Acknowledgement(
                    voter=exchange.asker,
                    epoch=partition.current_leader_epoch,
                    offset=partition.fetch_offset,
                    durable_epoch=0 if state is None else state.epoch,
                    durable_end_offset=self._durable_end(exchange.asker).offset,
                    seconds=self._world.now,
                )
            )

    def _is_served(self, exchange: Exchange, response: bytes) -> None:
        opened = self._open.pop(id(exchange), None)
        if opened is None:
            return
        asked = opened[1]
        topic = next(iter(exchange.answered(response).responses), None)
        if topic is None:
            return
        (answer,) = topic.partitions
        leader = answer.current_leader
        self._says(exchange.answerer, leader.leader_epoch, leader.leader_id)
        if answer.error_code is not ErrorCode.none:
            return
        self._accepts(exchange.answerer, asked.current_leader_epoch, leader.leader_epoch, "a fetch")
        if exchange.asker in self._voters:
            self._history.served.append(
                VoterServed(
                    leader=exchange.answerer,
                    epoch=leader.leader_epoch,
                    voter=exchange.asker,
                    seconds=self._world.now,
                )
            )
        if answer.high_watermark >= 0:
            self._witness.is_told(exchange.asker, exchange.answerer, leader.leader_epoch, answer.high_watermark)

    # ---- brokers

    def _saw_heartbeat(self, exchange: Exchange, response: bytes | None) -> None:
        if response is None:
            asked = exchange.asked()
            self._open[id(exchange)] = exchange, asked, self._world.now
            self._history.unanswered[id(exchange)] = HeartbeatSent(
                broker_id=asked.broker_id,
                broker_epoch=asked.broker_epoch,
                controller=exchange.answerer,
                seconds=self._world.now,
            )
            if asked.want_shut_down:
                farewell = Farewell(broker_id=asked.broker_id, broker_epoch=asked.broker_epoch, seconds=self._world.now)
                self._history.farewells.append(farewell)
            return
        opened = self._open.pop(id(exchange), None)
        self._history.unanswered.pop(id(exchange), None)
        if opened is None or exchange.answered(response).error_code is not ErrorCode.none:
            return
        _, asked, asked_seconds = opened
        self._history.heartbeats.append(
            Heartbeat(
                broker_id=asked.broker_id,
                broker_epoch=asked.broker_epoch,
                controller=exchange.answerer,
                asked_seconds=asked_seconds,
                answered_seconds=self._world.now,
                wants_to_leave=asked.want_fence or asked.want_shut_down,
            )
        )

    def _saw_listening(self, host: str, port: int, is_open: bool) -> None:
        if host in self._ids:
            one = Listening(node=host, port=port, seconds=self._world.now, is_open=is_open)
            self._history.listening.append(one)


def settings_of(nodes: Sequence[NodeHost]) -> QuorumSettings:
    config = nodes[0].config
    return QuorumSettings(
        node_ids={node.name: node.planned.node_id for node in nodes},
        voters=frozenset(node.name for node in nodes if node.planned.is_voter),
        broker_port=CLIENT_PORT,
        fetch_timeout_seconds=config.controller_quorum_fetch_timeout_ms / 1000,
        election_timeout_seconds=config.controller_quorum_election_timeout_ms / 1000,
        session_seconds=config.broker_session_timeout_ms / 1000,
        grace_seconds=config.broker_disconnect_grace_ms / 1000,
        idle_seconds=config.metadata_max_idle_interval_ms / 1000,
    )


def _is_metadata(topic: Message) -> bool:
    return getattr(topic, "topic_id", None) == METADATA_TOPIC_ID or getattr(topic, "topic", "") == METADATA_TOPIC


def _partition(message: Message) -> Message | None:
    """The one of the metadata log: nothing else is voted on."""
    return next((partition for topic in message.topics for partition in topic.partitions), None)
