"""Records the messages of the quorum, and the contents of the nodes' disks at that time, during a run.

It reads messages when they are sent, and disks when they are written. The checkers evaluate them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from odradek.sim.clients.topic_observer import CONFIG
from odradek.sim.commit_recorder import CommitRecorder
from odradek.sim.history import History, View
from odradek.sim.metadata_disk import outline
from odradek.sim.node_host import NodeHost
from odradek.sim.quorum_history import (
    Acknowledgement,
    Appended,
    Candidacy,
    ClaimAccepted,
    DiskSeen,
    Disturbance,
    EpochReported,
    Heartbeat,
    HeartbeatSent,
    LeaderAnnounced,
    Listening,
    LogEnd,
    QuorumSettings,
    RegistrationSent,
    ShutdownRequested,
    Vote,
    VoterServed,
)
from odradek.sim.stored_log import split
from odradek.sim.triggers import APPEND, LEAD, VOTE, Triggers
from odradek.sim.wire_names import Exchange
from odradek.sim.world import World
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message

_METADATA_NAMES: Final = (METADATA_TOPIC_ID.bytes, METADATA_TOPIC.encode())


class QuorumRecorder:
    def __init__(
        self, world: World, nodes: Sequence[NodeHost], history: History, triggers: Triggers | None = None
    ) -> None:
        self._world: Final = world
        self._changes: Final = history.changes
        self._history: Final = history.quorum
        self._triggers: Final = triggers or Triggers()
        self._disks: Final = {node.name: node.metadata_disk for node in nodes}
        self._ids: Final = {node.name: node.planned.node_id for node in nodes}
        self._commit_recorder: Final = CommitRecorder(
            world,
            self._disks,
            {node.planned.node_id: node.name for node in nodes if node.planned.is_voter},
            self._history,
        )
        self._voters: Final = frozenset(node.name for node in nodes if node.planned.is_voter)
        # Requests without a response and when they were sent, by identity: several may be equal.
        self._open: Final[dict[int, tuple[Exchange, Message, float]]] = {}
        self._reported_epochs: Final[dict[str, tuple[int, int]]] = {}
        for node in nodes:
            # Its disk shows how far it had got when it ended.
            node.add_end_listener(lambda node=node: self.record_disk(node.name))  # type: ignore[misc]
            node.computer.disk.write_watcher = self._append_watcher(node)
            node.on_service = self._service_watcher(node.name)
        world.network.watchers.update(
            {
                ApiKey.VOTE: self._on_vote,
                ApiKey.FETCH: self._on_fetch,
                ApiKey.BEGIN_QUORUM_EPOCH: self._on_claim,
                ApiKey.END_QUORUM_EPOCH: self._on_claim,
                ApiKey.BROKER_REGISTRATION: self._on_registration,
                ApiKey.BROKER_HEARTBEAT: self._on_heartbeat,
            }
        )
        world.network.listening_watcher = self._on_listening

    # ---- disks

    def record_disk(self, node: str) -> None:
        self._history.copies.append(self._disks[node].copy(self._world.now))
        self._note_state(node)
        self._durable_end(node)

    def record_all(self, topics: Sequence[str]) -> None:
        """After the faults: every node has the whole log and the final state of these topics."""
        now = self._world.now
        for node, disk in self._disks.items():
            self.record_disk(node)
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

        def on_append(path: str, data: bytes) -> None:
            if path.startswith(directory) and path.endswith(".log"):
                for batch in split(data):
                    one = Appended(node=node.name, batch=outline(batch), seconds=self._world.now)
                    self._history.appended.append(one)
                    self._commit_recorder.on_append(one)
                    if one.batch.leader_id == node.planned.node_id:
                        self._triggers.fire(LEAD, node.name)
                self._triggers.fire(APPEND, node.name)

        return on_append

    def _service_watcher(self, node: str) -> Callable[[bool], None]:
        disturbances = self._history.disturbances
        disturbance = Disturbance(one=node, other=node, began=0.0, ended=inf)
        disturbances.append(disturbance)

        def on_service_change(is_there: bool) -> None:
            nonlocal disturbance
            if is_there:
                disturbances.remove(disturbance)
                disturbances.append(replace(disturbance, ended=self._world.now))
            elif disturbance not in disturbances:
                disturbance = replace(disturbance, began=self._world.now)
                disturbances.append(disturbance)

        return on_service_change

    # ---- elections

    def _on_vote(self, exchange: Exchange, response: bytes | None) -> None:
        requested = _partition(exchange.read_request())
        if requested is None:
            return
        is_pre_vote = getattr(requested, "pre_vote", False)
        claimed_end = LogEnd(epoch=requested.last_offset_epoch, offset=requested.last_offset)
        now = self._world.now
        if response is None:
            candidate = exchange.requester
            self._record_epoch(candidate, requested.replica_epoch)
            self._history.candidacies.append(
                Candidacy(
                    candidate=candidate,
                    candidate_id=requested.replica_id,
                    epoch=requested.replica_epoch,
                    seconds=now,
                    is_pre_vote=is_pre_vote,
                    claimed_end=claimed_end,
                    durable=self._disks[candidate].durable_state(now),
                    durable_end=self._durable_end(candidate),
                )
            )
            if not is_pre_vote:
                self._triggers.fire(VOTE, candidate)
            return
        result = _partition(exchange.read_response(response))
        if result is None:
            return
        voter = exchange.responder
        self._record_epoch(voter, result.leader_epoch, result.leader_id)
        if not result.vote_granted:
            return
        self._note_state(voter)
        self._history.votes.append(
            Vote(
                voter=voter,
                voter_id=self._ids[voter],
                candidate_id=requested.replica_id,
                epoch=requested.replica_epoch,
                voter_epoch=result.leader_epoch,
                seconds=now,
                is_pre_vote=is_pre_vote,
                claimed_end=claimed_end,
                durable_end=self._durable_end(voter),
                durable=self._disks[voter].durable_state(now),
            )
        )
        if not is_pre_vote:
            self._triggers.fire(VOTE, voter)

    def _on_claim(self, exchange: Exchange, response: bytes | None) -> None:
        """BeginQuorumEpoch or EndQuorumEpoch."""
        requested = _partition(exchange.read_request())
        if requested is None:
            return
        if response is None:
            self._record_epoch(exchange.requester, requested.leader_epoch, requested.leader_id)
            if exchange.api_key == ApiKey.END_QUORUM_EPOCH:
                self._history.resigned.append((requested.leader_epoch, self._world.now))
            else:
                announced = LeaderAnnounced(
                    leader=exchange.requester, epoch=requested.leader_epoch, seconds=self._world.now
                )
                self._history.announcements.append(announced)
            return
        result = _partition(exchange.read_response(response))
        if result is None:
            return
        self._record_epoch(exchange.responder, result.leader_epoch, result.leader_id)
        if result.error_code is ErrorCode.none:
            what = "its beginning" if exchange.api_key == ApiKey.BEGIN_QUORUM_EPOCH else "its end"
            self._record_claim(exchange.responder, requested.leader_epoch, result.leader_epoch, what)

    def _record_epoch(self, node: str, epoch: int, leader_id: int = -1) -> None:
        if epoch < 0 or self._reported_epochs.get(node) == (epoch, leader_id):
            return
        self._reported_epochs[node] = epoch, leader_id
        now = self._world.now
        state = self._disks[node].durable_state(now)
        self._history.epochs.append(
            EpochReported(
                node=node,
                epoch=epoch,
                leader_id=leader_id,
                durable_epoch=0 if state is None else state.epoch,
                seconds=now,
            )
        )

    def _record_claim(self, node: str, epoch: int, own_epoch: int, what: str) -> None:
        if own_epoch != epoch:
            one = ClaimAccepted(node=node, epoch=epoch, own_epoch=own_epoch, what=what, seconds=self._world.now)
            self._history.accepted.append(one)

    # ---- replication

    def _on_fetch(self, exchange: Exchange, response: bytes | None) -> None:
        if exchange.requester not in self._ids or exchange.responder not in self._voters:
            return
        if response is None:
            self._on_fetch_request(exchange)
        else:
            self._on_fetch_response(exchange, response)

    def _on_fetch_request(self, exchange: Exchange) -> None:
        if not any(name in exchange.request for name in _METADATA_NAMES):
            # Most fetch other topics.
            return
        request = exchange.read_request()
        topic = next((one for one in request.topics if _is_metadata(one)), None)
        if topic is None:
            return
        (partition,) = topic.partitions
        self._open[id(exchange)] = exchange, partition, self._world.now
        self._record_epoch(exchange.requester, partition.current_leader_epoch)
        if exchange.requester in self._voters:
            state = self._disks[exchange.requester].durable_state(self._world.now)
            self._history.acknowledgements.append(
                Acknowledgement(
                    voter=exchange.requester,
                    epoch=partition.current_leader_epoch,
                    offset=partition.fetch_offset,
                    durable_epoch=0 if state is None else state.epoch,
                    durable_end_offset=self._durable_end(exchange.requester).offset,
                    seconds=self._world.now,
                )
            )

    def _on_fetch_response(self, exchange: Exchange, response: bytes) -> None:
        opened = self._open.pop(id(exchange), None)
        if opened is None:
            return
        requested = opened[1]
        topic = next(iter(exchange.read_response(response).responses), None)
        if topic is None:
            return
        (result,) = topic.partitions
        leader = result.current_leader
        self._record_epoch(exchange.responder, leader.leader_epoch, leader.leader_id)
        if result.error_code is not ErrorCode.none:
            return
        self._record_claim(exchange.responder, requested.current_leader_epoch, leader.leader_epoch, "a fetch")
        if exchange.requester in self._voters:
            self._history.served.append(
                VoterServed(
                    leader=exchange.responder,
                    epoch=leader.leader_epoch,
                    voter=exchange.requester,
                    seconds=self._world.now,
                )
            )
        if result.high_watermark >= 0:
            self._commit_recorder.on_high_watermark(
                exchange.requester, exchange.responder, leader.leader_epoch, result.high_watermark
            )

    # ---- brokers

    def _on_registration(self, exchange: Exchange, response: bytes | None) -> None:
        if response is None:
            requested = exchange.read_request()
            self._history.registrations.append(
                RegistrationSent(
                    host=exchange.requester,
                    broker_id=requested.broker_id,
                    incarnation=str(requested.incarnation_id),
                    seconds=self._world.now,
                )
            )

    def _on_heartbeat(self, exchange: Exchange, response: bytes | None) -> None:
        if response is None:
            requested = exchange.read_request()
            self._open[id(exchange)] = exchange, requested, self._world.now
            self._history.pending_heartbeats[id(exchange)] = HeartbeatSent(
                broker_id=requested.broker_id,
                broker_epoch=requested.broker_epoch,
                controller=exchange.responder,
                seconds=self._world.now,
            )
            if requested.want_shut_down:
                shutdown_request = ShutdownRequested(
                    broker_id=requested.broker_id, broker_epoch=requested.broker_epoch, seconds=self._world.now
                )
                self._history.shutdown_requests.append(shutdown_request)
            return
        opened = self._open.pop(id(exchange), None)
        self._history.pending_heartbeats.pop(id(exchange), None)
        if opened is None or exchange.read_response(response).error_code is not ErrorCode.none:
            return
        _, requested, sent_seconds = opened
        self._history.heartbeats.append(
            Heartbeat(
                broker_id=requested.broker_id,
                broker_epoch=requested.broker_epoch,
                controller=exchange.responder,
                sent_seconds=sent_seconds,
                responded_seconds=self._world.now,
                # A broker that starts wants to stay fenced until it is ready, which is over when it is fenced again.
                wants_to_leave=requested.want_shut_down,
            )
        )

    def _on_listening(self, host: str, port: int, is_open: bool) -> None:
        if host in self._ids:
            one = Listening(node=host, port=port, seconds=self._world.now, is_open=is_open)
            self._history.listening.append(one)


def settings_of(nodes: Sequence[NodeHost]) -> QuorumSettings:
    config = nodes[0].config
    return QuorumSettings(
        node_ids={node.name: node.planned.node_id for node in nodes},
        voters=frozenset(node.name for node in nodes if node.planned.is_voter),
        broker_ports={node.name: node.planned.client_port for node in nodes if node.planned.is_broker},
        fetch_timeout_seconds=config.controller_quorum_fetch_timeout_ms / 1000,
        election_timeout_seconds=config.controller_quorum_election_timeout_ms / 1000,
        session_seconds=config.broker_session_timeout_ms / 1000,
        grace_seconds=config.broker_disconnect_grace_ms / 1000,
        idle_seconds=config.metadata_max_idle_interval_ms / 1000,
    )


def _is_metadata(topic: Message) -> bool:
    return getattr(topic, "topic_id", None) == METADATA_TOPIC_ID or getattr(topic, "topic", "") == METADATA_TOPIC


def _partition(message: Message) -> Message | None:
    """The partition of the metadata log."""
    return next((partition for topic in message.topics for partition in topic.partitions), None)
