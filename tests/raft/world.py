"""A quorum of Raft state machines under a seeded scheduler.

Messages are lost, delayed, duplicated and reordered, disks are slow, and crashes lose unsynced writes.
A seed determines the whole run.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol
from uuid import UUID

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, events, messages
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.settings import Identity, RaftSettings
from odradek.core.raft.state_machine import RaftStateMachine
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from odradek.core.raft.voters import Quorum
from odradek.records.control import KRaftVersionRange, VoterEndpoint, VoterRegistration
from tests.raft.checker import Checker
from tests.raft.disk import Change, Disk, Snapshot, digest_after

SETTINGS = RaftSettings(
    election_timeout_ms=200,
    fetch_timeout_ms=400,
    election_backoff_max_ms=200,
    request_timeout_ms=400,
    retry_backoff_ms=20,
    fetch_max_wait_ms=100,
    fetch_snapshot_max_bytes=24,
)
"""A fifth of Kafka's timeouts, so that a short run contains many elections."""
BATCHES_PER_FETCH = 4
KRAFT_VERSIONS = KRaftVersionRange(min_supported_version=0, max_supported_version=1)


def directory_of(node_id: int) -> UUID:
    return UUID(int=1000 + node_id)


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, directory_of(node_id))


def registration(node_id: int, *, with_directory: bool) -> VoterRegistration:
    return VoterRegistration(
        voter_id=node_id,
        voter_directory_id=directory_of(node_id) if with_directory else None,
        endpoints=(VoterEndpoint(name="CONTROLLER", host="localhost", port=9000 + node_id),),
        kraft_version_feature=KRAFT_VERSIONS,
    )


@dataclass(slots=True)
class Network:
    """The faults of the network in one run."""

    delay_max_ms: int = 4
    slow_rate: float = 0.0
    """Share of messages that take up to `slow_max_ms`."""
    slow_max_ms: int = 300
    loss_rate: float = 0.0
    duplicate_rate: float = 0.0
    dropped_pairs: set[tuple[int, int]] = field(default_factory=set)
    """Pairs (source, destination) between which all messages are dropped."""


class Watcher(Protocol):
    """Observes a run without changing it."""

    def on_note(self, now_ms: int, text: str) -> None: ...

    def on_event(self, now_ms: int, node_id: int, event: events.Event) -> None: ...

    def on_effect(self, now_ms: int, node_id: int, effect: effects.Effect) -> None: ...

    def on_message(
        self, now_ms: int, source: int, destination: int, message: messages.Request | messages.Response
    ) -> None:
        """Called when the message is sent."""


class Host:
    """Drives one replica's state machine: executes its effects in order and feeds the results back as events."""

    def __init__(self, world: "World", node_id: int, disk: Disk) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = disk
        self.machine: RaftStateMachine | None = None
        self.life = 0
        """Incremented by every start and crash, to ignore callbacks from before."""
        self.leading_epoch: int | None = None
        self.applied_offset = 0
        self.applied_digest = 0
        self.sync_delay_max_ms = 6
        self.paused_until_ms = 0
        self._pending_effects: deque[effects.Effect] = deque()
        self._is_persisting = False
        self._is_syncing = False
        self._timer = 0
        self._open: dict[int, tuple[int, int, messages.Request]] = {}
        """Received requests: source, correlation ID and message."""

    @property
    def is_running(self) -> bool:
        return self.machine is not None

    # Start and crash
    def start(self) -> None:
        self.life += 1
        base = self.disk.base
        durable = self.disk.recover()
        if self.disk.base != base:
            self._report_loaded(self.disk.base, self.disk.snapshots[self.disk.base])
        self._pending_effects.clear()
        self._open.clear()
        self._is_persisting = self._is_syncing = False
        self.leading_epoch = None
        self.paused_until_ms = 0
        newest = max(self.disk.snapshots, default=None)
        self.applied_offset = 0 if newest is None else newest.end_offset
        self.applied_digest = 0 if newest is None else self.disk.snapshots[newest].digest
        self.world.checker.on_restart(self.node_id)
        identity = Identity(
            node_id=self.node_id,
            directory_id=directory_of(self.node_id),
            cluster_id="cluster",
            endpoints=registration(self.node_id, with_directory=True).endpoints,
            kraft_versions=KRAFT_VERSIONS,
        )
        random = Random(self.world.random.randrange(1 << 30))
        self.machine = RaftStateMachine(identity, self.world.settings, random, durable)
        self.execute(self.machine.start(self.world.now_ms))

    def crash(self, *, loses_power: bool) -> None:
        self.machine = None
        self.life += 1
        if self._is_persisting and self.world.random.random() < 0.5:
            # The pending write has reached the disk.
            effect = self._pending_effects[0]
            assert isinstance(effect, effects.PersistQuorumState)
            self._save_quorum_state(effect.state)
        survivors = self.disk.lose_power(self.world.random) if loses_power else self.disk.sync(1 << 60)
        self.world.checker.on_synced(self.node_id, survivors)
        self.world.checker.on_crash(self.node_id)

    def step(self, event: events.Event) -> None:
        if self.machine is not None and not self._is_paused(self._in_this_life(lambda: self.step(event))):
            if isinstance(event, events.ResponseReceived):
                self.world.checker.on_message_received(
                    self.node_id, event.message, event.correlation_id, self.world.now_ms
                )
            for watcher in self.world.watchers:
                watcher.on_event(self.world.now_ms, self.node_id, event)
            self.execute(self.machine.step(event, self.world.now_ms))

    def receive(self, source: int, correlation_id: int, message: messages.Request) -> None:
        if self.machine is None or self._is_paused(lambda: self.receive(source, correlation_id, message)):
            return
        if isinstance(message, messages.ApiVersionsRequest):
            response = messages.ApiVersionsResponse(kraft_versions=KRAFT_VERSIONS)
            self.world.send_response(self.node_id, source, correlation_id, response)
            return
        self.world.checker.on_message_received(self.node_id, message, correlation_id, self.world.now_ms)
        request_id = self.world.next_number()
        self._open[request_id] = (source, correlation_id, message)
        self.step(events.RequestReceived(request_id, message))

    # Effects

    def execute(self, wanted: tuple[effects.Effect, ...]) -> None:
        for effect in wanted:
            if isinstance(effect, effects.SetTimer):
                self._set_timer(effect.at_ms)
            else:
                self._pending_effects.append(effect)
        self._execute_next()

    def _execute_next(self) -> None:
        while self._pending_effects and not self._is_persisting:
            effect = self._pending_effects[0]
            if isinstance(effect, effects.PersistQuorumState):
                self.persist(effect)
            else:
                self._pending_effects.popleft()
                self._execute(effect)

    def persist(self, effect: effects.PersistQuorumState) -> None:
        """Executes no other effect until the state is durable."""
        self._is_persisting = True
        self.later(self.world.random.randrange(self.sync_delay_max_ms), lambda: self._on_persisted(effect))

    def _on_persisted(self, effect: effects.PersistQuorumState) -> None:
        self._save_quorum_state(effect.state)
        self._pending_effects.popleft()
        self._is_persisting = False
        self._execute_next()

    def _save_quorum_state(self, state: QuorumState) -> None:
        self.disk.quorum_state = state
        self.world.checker.on_quorum_state_persisted(self.node_id, state)

    def _set_timer(self, at_ms: int) -> None:
        self._timer += 1
        timer = self._timer

        def ring() -> None:
            if timer == self._timer:
                self.step(events.TimePassed())

        self.later(at_ms - self.world.now_ms, ring)

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Runs `action` unless the process was restarted; waits while it is paused."""

        def run() -> None:
            if not self._is_paused(guarded):
                action()

        guarded = self._in_this_life(run)
        self.world.after(delay_ms, guarded)

    def _in_this_life(self, action: Callable[[], object]) -> Callable[[], None]:
        life = self.life

        def run() -> None:
            if life == self.life:
                action()

        return run

    def _is_paused(self, then: Callable[[], object]) -> bool:
        """Postpones `then` until the process resumes, if it is paused."""
        remaining_ms = self.paused_until_ms - self.world.now_ms
        if remaining_ms > 0:
            self.world.after(remaining_ms, then)
        return remaining_ms > 0

    def _execute(self, effect: effects.Effect) -> None:
        for watcher in self.world.watchers:
            watcher.on_effect(self.world.now_ms, self.node_id, effect)
        match effect:
            case effects.Send():
                self.world.send_request(self.node_id, effect.destination, effect.correlation_id, effect.message)
            case effects.Respond(request_id, message):
                self._respond(request_id, message)
            case effects.RespondWithRecords():
                batches = self.disk.read(effect.start_offset, effect.end_offset, BATCHES_PER_FETCH)
                self._respond(effect.request_id, replace(effect.message, batches=batches))
            case effects.RespondWithSnapshot():
                self._respond_with_snapshot(effect)
            case effects.Append(change, batches):
                self._write(Change(change, appended=batches))
            case effects.Truncate(change, end_offset):
                self._write(Change(change, truncated_to=end_offset))
            case effects.WriteSnapshotPiece():
                piece = self.disk.pieces.setdefault(effect.snapshot_id, bytearray())
                piece[effect.position :] = effect.data
            case effects.AbandonSnapshot(snapshot_id):
                self.disk.pieces.pop(snapshot_id, None)
            case effects.LoadSnapshot(_, snapshot_id):
                delay_max_ms = self.world.random.choice((3, 200)) * self.sync_delay_max_ms
                delay_ms = self.world.random.randrange(min(delay_max_ms, 1500))
                self.later(delay_ms, lambda: self._load(snapshot_id))
            case effects.HighWatermarkAdvanced(offset):
                self._apply(offset)
            case effects.BecameLeader(epoch):
                self.leading_epoch = epoch
            case effects.LeadershipLost():
                self.leading_epoch = None
            case effects.ReadyToStop():
                self.later(0, lambda: self.world.crash(self.node_id))

    def _respond(self, request_id: int, message: messages.Response) -> None:
        source, correlation_id, request = self._open.pop(request_id)
        self.world.send_response(self.node_id, source, correlation_id, message, request)

    def _respond_with_snapshot(self, effect: effects.RespondWithSnapshot) -> None:
        message = effect.message
        assert message.snapshot_id is not None
        data = self.disk.snapshots[message.snapshot_id].data
        piece = data[message.position : message.position + effect.max_bytes]
        self._respond(effect.request_id, replace(message, data=piece))

    def _write(self, change: Change) -> None:
        self.world.checker.on_write(self.node_id, change, self.leading_epoch, self.world.now_ms)
        self.disk.write(change)
        self._sync_soon()

    def _sync_soon(self) -> None:
        if not self._is_syncing and self.disk.unsynced:
            self._is_syncing = True
            number = self.disk.unsynced[-1].number
            self.later(1 + self.world.random.randrange(self.sync_delay_max_ms), lambda: self._on_synced(number))

    def _on_synced(self, number: int) -> None:
        self._is_syncing = False
        self.world.checker.on_synced(self.node_id, self.disk.sync(number))
        self._sync_soon()
        self.step(events.LogSynced(number))

    def _load(self, snapshot_id: SnapshotId) -> None:
        snapshot = self.world.snapshot_of(bytes(self.disk.pieces[snapshot_id]))
        self._report_loaded(snapshot_id, snapshot)
        self.disk.load(snapshot_id, snapshot)
        self.applied_offset, self.applied_digest = snapshot_id.end_offset, snapshot.digest
        self.step(events.SnapshotLoaded(snapshot_id, len(snapshot.data), snapshot.quorum))

    def _report_loaded(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
        voter_ids = self.world.voter_ids_of(snapshot.quorum)
        self.world.checker.on_snapshot_loaded(self.node_id, snapshot_id, snapshot.digest, voter_ids)

    # The replicated state: a digest of all records
    def _apply(self, offset: int) -> None:
        for batch in self.disk.log:
            if self.applied_offset <= batch.base_offset and batch.last_offset < offset:
                self.applied_digest = digest_after(self.applied_digest, batch)
                self.applied_offset = batch.last_offset + 1
        if self.applied_offset != offset:
            # Only a snapshot can be ahead of the log, and it was applied as a whole.
            assert self.applied_offset > offset
            return
        self.world.checker.on_committed(self.node_id, offset, self.applied_digest, self.leading_epoch)

    def take_snapshot(self) -> None:
        epoch = next((one.epoch for one in self.disk.log if one.last_offset == self.applied_offset - 1), None)
        if self.machine is None or epoch is None:
            return
        snapshot_id = SnapshotId(self.applied_offset, epoch)
        if snapshot_id in self.disk.snapshots:
            # Another node may be fetching it, so its bytes must not change.
            return
        quorum = self.machine.quorum_at(snapshot_id.end_offset)
        snapshot = self.world.new_snapshot(self.applied_digest, quorum)
        self.world.checker.on_snapshot_taken(self.node_id, snapshot_id, snapshot.digest)
        self.disk.snapshots[snapshot_id] = snapshot
        self.step(events.SnapshotTaken(snapshot_id, len(snapshot.data)))

    def clean(self) -> None:
        """Deletes the log before the newest snapshot, unless writes are still unsynced."""
        newest = max(self.disk.snapshots, default=None)
        if newest is not None and newest > self.disk.base and not self.disk.unsynced:
            self.disk.advance_start(newest)
            self.step(events.LogStartAdvanced(newest))


class World:
    def __init__(
        self,
        seed: int,
        *,
        voters: int,
        observers: int = 0,
        kraft_version: int = 0,
        settings: RaftSettings = SETTINGS,
        host_type: type[Host] = Host,
    ) -> None:
        self.random = Random(seed)
        self.settings = settings
        self.now_ms = 0
        self.network = Network()
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._number = 0
        self._snapshots: dict[bytes, Snapshot] = {}
        self.watchers: list[Watcher] = []
        self.on_vote_granted: Callable[[int, messages.Request | None], None] = lambda voter, request: None
        """Lets a scenario inject a fault right after a vote."""
        self.admin_responses: list[messages.Response] = []
        ids = list(range(1, voters + observers + 1))
        self._static_ids = frozenset(ids[:voters])
        self.checker = Checker(
            ids,
            self._static_ids,
            fetch_timeout_ms=settings.fetch_timeout_ms,
            request_timeout_ms=settings.request_timeout_ms,
        )
        is_dynamic = kraft_version > 0
        first = VoterSet.of(registration(node_id, with_directory=is_dynamic) for node_id in ids[:voters])
        formatted_with = Quorum(kraft_version, first.voters) if is_dynamic else Quorum()
        self.settings = replace(settings, bootstrap_ids=tuple(ids[:voters]))
        static = VoterSet() if is_dynamic else first
        self.hosts = {node_id: host_type(self, node_id, Disk(static, formatted_with)) for node_id in ids}

    # Time

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        heapq.heappush(self._queue, (self.now_ms + max(0, delay_ms), self.next_number(), action))

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def run(self, until_ms: int, is_done: Callable[[], bool] = lambda: False) -> bool:
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
            if is_done():
                return True
        self.now_ms = until_ms
        return is_done()

    # Messages

    def send_request(self, source: int, destination: int, correlation_id: int, message: messages.Request) -> None:
        for watcher in self.watchers:
            watcher.on_message(self.now_ms, source, destination, message)
        self.checker.on_message_sent(source, message, request=None, correlation_id=correlation_id, now_ms=self.now_ms)
        host = self.hosts[destination]
        if not host.is_running and (source, destination) not in self.network.dropped_pairs:
            failure = events.RequestFailed(destination, correlation_id)
            self._deliver(source, lambda: self.hosts[source].step(failure))
            return

        def arrive() -> None:
            if host.is_running:
                host.receive(source, correlation_id, message)

        self._transmit(source, destination, arrive)

    def send_response(
        self,
        source: int,
        destination: int,
        correlation_id: int,
        message: messages.Response,
        request: messages.Request | None = None,
    ) -> None:
        for watcher in self.watchers:
            watcher.on_message(self.now_ms, source, destination, message)
        self.checker.on_message_sent(
            source, message, request=request, correlation_id=correlation_id, now_ms=self.now_ms
        )
        if isinstance(message, messages.VoteResponse) and message.vote_granted:
            self.on_vote_granted(source, request)
        if destination not in self.hosts:
            self.admin_responses.append(message)
            return
        host, life = self.hosts[destination], self.hosts[destination].life

        def arrive() -> None:
            # The connection was closed when the process died.
            if host.is_running and host.life == life:
                host.step(events.ResponseReceived(source, correlation_id, message))

        self._transmit(source, destination, arrive)

    def _transmit(self, source: int, destination: int, arrive: Callable[[], None]) -> None:
        network = self.network
        if (source, destination) in network.dropped_pairs or self.random.random() < network.loss_rate:
            return

        def pass_on() -> None:
            if (source, destination) not in self.network.dropped_pairs:
                arrive()

        for _ in range(2 if self.random.random() < network.duplicate_rate else 1):
            self._deliver(source, pass_on)

    def _deliver(self, source: int, arrive: Callable[[], object]) -> None:
        network = self.network
        is_slow = self.random.random() < network.slow_rate
        self.after(1 + self.random.randrange(network.slow_max_ms if is_slow else network.delay_max_ms), arrive)

    def request_as_admin(self, node_id: int, message: messages.Request) -> None:
        """Sends a request as an admin client."""
        host = self.hosts[node_id]
        self.after(0, lambda: host.receive(-1, 0, message))

    # Nodes

    def start_all(self) -> None:
        for host in self.hosts.values():
            if not host.is_running:
                self.start(host.node_id)

    def start(self, node_id: int) -> None:
        self.hosts[node_id].start()
        self.note(f"node {node_id} starts")
        for other, host in self.hosts.items():
            if other != node_id:
                self._connect_soon(other, node_id)
                if not host.is_running:
                    self._connect_soon(node_id, other)

    def crash(self, node_id: int, *, loses_power: bool = False) -> None:
        if not self.hosts[node_id].is_running:
            return
        self.note(f"node {node_id} {'loses power' if loses_power else 'is killed'}")
        self.hosts[node_id].crash(loses_power=loses_power)
        for other in self.hosts:
            if other != node_id and not loses_power:
                self._connect_soon(other, node_id)

    def pause(self, node_id: int, duration_ms: int) -> None:
        self.note(f"node {node_id} is paused for {duration_ms} ms")
        host = self.hosts[node_id]
        host.paused_until_ms = max(host.paused_until_ms, self.now_ms + duration_ms)
        self.checker.on_pause(node_id, host.paused_until_ms)

    def _connect_soon(self, source: int, destination: int) -> None:
        self.after(1 + self.random.randrange(4), lambda: self.connect(source, destination))

    def connect(self, source: int, destination: int) -> None:
        """The destination accepts or refuses the connection, unless the network is partitioned."""
        if {(source, destination), (destination, source)} & self.network.dropped_pairs:
            return
        if self.hosts[destination].is_running:
            self.checker.on_connected(source, destination)
            self.hosts[source].step(events.ConnectionUp(destination))
        else:
            self.refuse(source, destination)

    def refuse(self, source: int, destination: int) -> None:
        self.checker.on_connection_refused(source, destination)
        self.hosts[source].step(events.ConnectionRefused(destination))

    def leader(self) -> Host | None:
        """The running leader with the highest epoch."""
        leading = [host for host in self.hosts.values() if host.is_running and host.leading_epoch is not None]
        return max(leading, key=lambda host: host.leading_epoch or 0, default=None)

    # Snapshots by content
    def new_snapshot(self, digest: int, quorum: Quorum) -> Snapshot:
        data = f"{self.next_number():08}:{digest:010}:{'x' * self.random.randrange(60)}".encode()
        self._snapshots[data] = Snapshot(digest, quorum, data)
        return self._snapshots[data]

    def snapshot_of(self, data: bytes) -> Snapshot:
        return self._snapshots[data]

    def voter_ids_of(self, quorum: Quorum) -> frozenset[int]:
        return frozenset(voter.voter_id for voter in quorum.voters) if quorum.kraft_version else self._static_ids

    def note(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.on_note(self.now_ms, text)
