"""Drives this node's replica of the metadata log: executes the effects of the raft state machine in order.

Effects reach the disk through the store, the other replicas through their peers, and the clock through timers. An
effect that waits for the disk delays those behind it. Batches are appended on the event loop while the disk is fast.
Only the sync of appended batches runs beside them: one at a time, for everything that was appended before it started.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from odradek.base.background import Fault
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Executor
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, events
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.messages import FetchSnapshotResponse
from odradek.core.raft.state_machine import RaftStateMachine
from odradek.core.raft.voters import Quorum
from odradek.quorum import wire
from odradek.quorum.misconfiguration import MisconfigurationLog
from odradek.quorum.peers import Peers
from odradek.quorum.store import OffsetOutOfLog, PreparedBatch, QuorumStore
from odradek.records.batch import CorruptBatch
from odradek.storage.log.log_dir_health import LogDirHealth
from odradek.wire.schemas import Message, schema

logger = logging.getLogger(__name__)

LANE: Final = "metadata"
REQUESTS_MAX: Final = 10_000
"""Open requests of other nodes. A replica has one at a time, so this many mean an attack or a bug."""


class LeaderAddress(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


class _Clean(NamedTuple):
    """The driver's own clean-up of the log, which runs in order with the effects."""

    config: NodeConfig
    now_ms: int
    done: "asyncio.Future[None]"


class QuorumListener(Protocol):
    """Receives this replica's role and commit events, in order."""

    def on_commit(self, end_offset: int) -> None: ...

    def on_snapshot_loaded(self, image: ClusterImage) -> None:
        """The snapshot replaces the log before its end, which is committed."""

    def on_leadership(self, epoch: int) -> None:
        """Everything in the log is committed."""

    def on_leadership_lost(self, epoch: int) -> None: ...

    def on_failure(self, error: Exception) -> None:
        """The last event: this replica has failed."""


class QuorumDriver:
    def __init__(
        self,
        machine: RaftStateMachine,
        store: QuorumStore,
        peers: Peers,
        misconfiguration: MisconfigurationLog,
        *,
        clock: Clock,
        executor: Executor,
        health: LogDirHealth,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._state_machine: Final = machine
        self._store: Final = store
        self._peers: Final = peers
        self._misconfiguration: Final = misconfiguration
        self._clock: Final = clock
        self._executor: Final = executor
        self._health: Final = health
        self._on_failure: Final = on_failure
        self._listeners: Final[list[QuorumListener]] = []
        self._leader_listeners: Final[list[Callable[[], None]]] = []
        self._waiting: Final[deque[effects.Effect | _Clean]] = deque()
        self._is_executing = False
        self._executing: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._appended_change = 0
        self._synced_change = 0
        self._timer: asyncio.TimerHandle | None = None
        self._responses: Final[dict[int, asyncio.Future[Any]]] = {}
        self._last_request_id = 0
        self._ready_to_stop: Final = asyncio.get_running_loop().create_future()
        self._is_stopped = False

    # Views

    @property
    def state_machine(self) -> RaftStateMachine:
        """For reading only: `step` is the only way to change it."""
        return self._state_machine

    @property
    def is_leader(self) -> bool:
        return self._state_machine.is_leader

    @property
    def epoch(self) -> int:
        return self._state_machine.epoch

    @property
    def log_end_offset(self) -> int:
        return self._state_machine.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._state_machine.high_watermark

    @property
    def has_caught_up(self) -> bool:
        """Whether the log once reached the high watermark of a leader, since this node started."""
        return self._state_machine.has_caught_up

    @property
    def leader_id(self) -> int:
        """-1 while no leader is known."""
        leader_id = self._state_machine.leader_id
        return -1 if leader_id is None else leader_id

    @property
    def voter_ids(self) -> list[int]:
        return sorted(voter.voter_id for voter in self._state_machine.quorum.voters)

    @property
    def leader(self) -> LeaderAddress | None:
        """None while there is no leader, or its address is unknown."""
        leader_id = self._state_machine.leader_id
        if leader_id is None:
            return None
        address = self._peers.address_of(leader_id, self._state_machine.leader_endpoints)
        return None if address is None else LeaderAddress(leader_id, self._state_machine.epoch, *address)

    def on_leader_change(self, listener: Callable[[], None]) -> None:
        self._leader_listeners.append(listener)

    def add_listener(self, listener: QuorumListener) -> None:
        self._listeners.append(listener)

    def has_fetched_recently(self, within_seconds: float) -> bool:
        """Whether this node leads, and a majority of the voters, including itself, has fetched within that time."""
        status = self._state_machine.describe()
        if status.error is not ErrorCode.none:
            return False
        since_ms = self._now_ms() - within_seconds * 1000
        recent = sum(voter.last_fetch_ms >= since_ms for voter in status.voters)
        return recent > len(status.voters) // 2

    # Start and stop

    def start(self) -> None:
        self._peers.use(self.step)
        self._enqueue(self._state_machine.start(self._now_ms()))

    async def stop(self, seconds_max: float) -> None:
        """Hands over leadership, if another node takes it in time, and stops. Nothing is written afterwards."""
        if not self._is_stopped:
            self.step(events.StopRequested())
            await asyncio.wait([self._ready_to_stop], timeout=seconds_max)
        self._end()
        tasks = [task for task in (self._executing, self._flushing) if task is not None]
        if tasks:
            await asyncio.wait(tasks)
        await self._peers.close()

    def _end(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for effect in self._waiting:
            if isinstance(effect, _Clean):
                effect.done.cancel()
        self._waiting.clear()
        for pending in self._responses.values():
            pending.cancel()
        self._responses.clear()

    def _on_fault(self, what: str, error: BaseException) -> None:
        """An effect that was not executed is never repeated, so this replica stops."""
        logger.error("Unexpected error in %s", what, exc_info=error)
        self._fail(Fault(what, error))

    def _fail(self, error: Exception) -> None:
        """After a failed write the contents of the disk are unknown, so this replica stops."""
        if self._is_stopped:
            return
        for listener in self._listeners:
            listener.on_failure(error)
        self._end()
        self._on_failure(error)

    # Events

    def step(self, event: events.Event) -> tuple[effects.Effect, ...]:
        if self._is_stopped:
            return ()
        try:
            new_effects = self._state_machine.step(event, self._now_ms())
        except BrokenQuorum as error:
            self._fail(error)
            return ()
        except Exception as error:  # noqa: BLE001 - a bug: the state machine may have changed in part
            self._on_fault("quorum state machine", error)
            return ()
        self._enqueue(new_effects)
        return new_effects

    def append(self, epoch: int, record_count: int, data: bytes) -> int:
        """Appends one batch as the leader of this epoch; returns its first offset. Raises KafkaError otherwise."""
        for effect in self.step(events.AppendRequested(epoch, record_count, data)):
            if isinstance(effect, effects.Append):
                return effect.batches[0].base_offset
        raise KafkaError(ErrorCode.not_controller)

    def raise_kraft_version(self, epoch: int, kraft_version: int) -> int:
        """Returns the offset of the last control record. Raises KafkaError if the quorum cannot be upgraded now."""
        for effect in self.step(events.KRaftVersionRequested(epoch, kraft_version)):
            if isinstance(effect, effects.Append):
                return effect.batches[0].last_offset
            if isinstance(effect, effects.AppendRejected):
                raise KafkaError(ErrorCode.invalid_update_version, effect.reason)
        raise KafkaError(ErrorCode.not_controller)

    async def handle(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        """Handles a request of another node or of a client."""
        messages = schema(api_key, version)
        if self._is_stopped or len(self._responses) >= REQUESTS_MAX:
            return wire.refuse(api_key, messages, ErrorCode.broker_not_available)
        try:
            message = wire.read_request(api_key, request, messages)
        except wire.RefusedRequest as refused:
            return refused.response
        self._last_request_id += 1
        request_id = self._last_request_id
        pending: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._responses[request_id] = pending
        try:
            self.step(events.RequestReceived(request_id, message))
            response, records = await pending
        finally:
            self._responses.pop(request_id, None)
        self._misconfiguration.on_request(message, response.error)
        return wire.write_response(
            api_key, messages, response, records=records, listener_name=listener_name, wall_ms_of=self._wall_ms_of
        )

    def resign(self, epoch: int) -> None:
        """For a controller that fails while its replica does not."""
        self.step(events.ResignRequested(epoch))

    def on_snapshot(self, snapshot_id: SnapshotId, size_bytes: int) -> None:
        # A snapshot of the leader may have replaced the whole log meanwhile.
        if snapshot_id.end_offset >= self._state_machine.log_start_offset:
            self.step(events.SnapshotTaken(snapshot_id, size_bytes))

    async def clean(self, config: NodeConfig, now_ms: int) -> None:
        """Deletes what exceeds the retention. It runs in order with the effects because the log has a single writer."""
        if self._is_stopped:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enqueue((_Clean(config, now_ms, done),))
        await done

    def quorum_at(self, end_offset: int) -> Quorum:
        return self._state_machine.quorum_at(end_offset)

    # Effects

    def _enqueue(self, new_effects: Iterable["effects.Effect | _Clean"]) -> None:
        self._waiting.extend(new_effects)
        # A listener may cause further effects, which are executed later.
        if not self._is_executing:
            self._is_executing = True
            self._execute_now()

    def _execute_now(self) -> None:
        """Executes effects up to the first one that waits for the disk."""
        while self._waiting and not self._is_stopped:
            effect = self._waiting.popleft()
            try:
                is_done = self._execute(effect)
            except OSError as error:
                # The caller, such as a request or a timer, is not responsible for a disk error.
                self._fail(error)
                break
            except Exception as error:  # noqa: BLE001 - nor for a bug
                self._on_fault("quorum driver", error)
                break
            if not is_done:
                self._executing = asyncio.ensure_future(self._execute_from(effect))
                return
        self._is_executing = False

    async def _execute_from(self, first: "effects.Effect | _Clean") -> None:
        try:
            await self._execute_slow(first)
            while self._waiting and not self._is_stopped:
                effect = self._waiting.popleft()
                if not self._execute(effect):
                    await self._execute_slow(effect)
        except (OSError, CorruptBatch, ValueError) as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug: the effects after this one must not be executed
            self._on_fault("quorum driver", error)
        finally:
            self._executing = None
            self._is_executing = False

    def _execute(self, effect: "effects.Effect | _Clean") -> bool:
        """False: the effect must wait for the disk, and later effects wait for it."""
        match effect:
            case effects.Send():
                self._peers.send(effect)
            case effects.Respond(request_id, message):
                self._respond(request_id, message)
            case effects.Append(change, batches):
                prepared = self._store.prepare(batches, self._clock.wall_ms())
                if not self._can_append_now(prepared):
                    return False
                self._append_now(prepared)
                self._on_appended(change)
            case effects.RespondWithRecords(request_id, message, start_offset, end_offset, max_bytes):
                records = self._read(self._store.read_cached, start_offset, end_offset, max_bytes)
                if records is None:
                    return False
                self._respond(request_id, message, records)
            case effects.HighWatermarkAdvanced(offset):
                for listener in self._listeners:
                    listener.on_commit(offset)
            case effects.LeadershipConfirmed(epoch):
                for listener in self._listeners:
                    listener.on_leadership(epoch)
            case effects.LeadershipLost(epoch):
                for listener in self._listeners:
                    listener.on_leadership_lost(epoch)
            case effects.LeaderChanged(leader_id, epoch):
                logger.info("Quorum leader changed: epoch=%d, leaderId=%d", epoch, leader_id)
                for notify in self._leader_listeners:
                    notify()
            case effects.SetTimer(at_ms):
                self._set_timer(at_ms)
            case effects.ReadyToStop():
                if not self._ready_to_stop.done():
                    self._ready_to_stop.set_result(None)
            case effects.BecameLeader() | effects.AppendRejected():
                # `append` finds it among the effects of its own step.
                pass
            case _:
                return False
        return True

    async def _execute_slow(self, effect: "effects.Effect | _Clean") -> None:
        store, run = self._store, self._executor.run
        match effect:
            case effects.PersistQuorumState(state, kraft_version, voter_ids):
                await run(lambda: store.write_quorum_state(state, kraft_version, voter_ids), lane=LANE)
            case effects.Append(change, batches):
                await run(partial(self._append_timed, store.prepare(batches, self._clock.wall_ms())), lane=LANE)
                self._on_appended(change)
            case effects.Truncate(change, end_offset):
                now_ms = self._clock.wall_ms()
                await run(lambda: store.truncate(end_offset, now_ms), lane=LANE)
                self._on_synced(change)
            case effects.RespondWithRecords(request_id, message, start_offset, end_offset, max_bytes):
                records = await run(lambda: self._read(store.read, start_offset, end_offset, max_bytes), lane=LANE)
                self._respond(request_id, message, records or b"")
            case effects.RespondWithSnapshot(request_id, message, max_bytes):
                await self._respond_with_snapshot(request_id, message, max_bytes)
            case effects.WriteSnapshotPiece(snapshot_id, position, data):
                await run(lambda: store.write_piece(snapshot_id, position, data), lane=LANE)
            case effects.AbandonSnapshot(snapshot_id):
                await run(lambda: store.abandon_pieces(snapshot_id), lane=LANE)
            case effects.LoadSnapshot(change, snapshot_id):
                await self._load_snapshot(change, snapshot_id)
            case _Clean(config, now_ms, done):
                try:
                    cleaned_up_to = await run(lambda: store.clean(config, now_ms), lane=LANE)
                    if cleaned_up_to is not None:
                        self.step(events.LogStartAdvanced(cleaned_up_to))
                finally:
                    # A failure stops the replica; the caller must not wait forever.
                    done.set_result(None)

    # The log

    def _can_append_now(self, prepared: Sequence[PreparedBatch]) -> bool:
        return not self._health.is_slow and self._store.can_append_quickly(prepared, self._clock.wall_ms())

    def _append_now(self, prepared: Sequence[PreparedBatch]) -> None:
        self._health.is_writing = True
        try:
            self._append_timed(prepared)
        finally:
            self._health.is_writing = False

    def _append_timed(self, prepared: Sequence[PreparedBatch]) -> None:
        timer = self._store.new_timer(self._clock)
        self._store.append(prepared, self._clock.wall_ms())
        self._health.on_write(timer.seconds(), self._clock.monotonic())

    def _on_appended(self, change: int) -> None:
        self._appended_change = change
        self._flush()

    def _flush(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush_all())

    async def _flush_all(self) -> None:
        try:
            while self._synced_change < self._appended_change and not self._is_stopped:
                change = self._appended_change
                await self._executor.run(self._store.flush, lane=LANE)
                self._on_synced(change)
        except OSError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug: a later sync must not succeed in its place
            self._on_fault("sync of the metadata log", error)
        finally:
            self._flushing = None

    def _on_synced(self, change: int) -> None:
        if change > self._synced_change:
            self._synced_change = change
            self._appended_change = max(self._appended_change, change)
            self.step(events.LogSynced(change))

    async def _load_snapshot(self, change: int, snapshot_id: SnapshotId) -> None:
        now_ms = self._clock.wall_ms()
        store = self._store
        image, quorum, size_bytes = await self._executor.run(lambda: store.load_pieces(snapshot_id, now_ms), lane=LANE)
        self._synced_change = self._appended_change = change
        logger.info("Metadata snapshot loaded: file=%s", snapshot_id.file_name)
        for listener in self._listeners:
            listener.on_snapshot_loaded(image)
        self.step(events.SnapshotLoaded(snapshot_id, size_bytes, quorum))

    # Responses

    @staticmethod
    def _read(
        read: Callable[[int, int, int], bytes | None], start_offset: int, end_offset: int, max_bytes: int
    ) -> bytes | None:
        try:
            return read(start_offset, end_offset, max_bytes)
        except OffsetOutOfLog:
            # Deleted meanwhile: the next Fetch gets a snapshot ID.
            return b""

    def _respond(self, request_id: int, message: Any, records: bytes = b"") -> None:
        pending = self._responses.pop(request_id, None)
        if pending is not None and not pending.done():
            pending.set_result((message, records))

    async def _respond_with_snapshot(self, request_id: int, message: FetchSnapshotResponse, max_bytes: int) -> None:
        store, snapshot_id, position = self._store, message.snapshot_id, message.position
        if request_id not in self._responses or snapshot_id is None:
            return
        try:
            data = await self._executor.run(lambda: store.read_snapshot(snapshot_id, position, max_bytes), lane=LANE)
        except FileNotFoundError:
            # Deleted meanwhile: the next Fetch gets the ID of another snapshot.
            self._respond(request_id, replace(message, error=ErrorCode.snapshot_not_found))
        else:
            self._respond(request_id, replace(message, data=data))

    # Time

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _wall_ms_of(self, at_ms: int) -> int:
        """Converts the state machine's time; -1 means never in both."""
        return -1 if at_ms < 0 else self._clock.wall_ms() - (self._now_ms() - at_ms)

    def _set_timer(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # In whole milliseconds, like the state machine: other rounding could make a timer fire without end.
        delay_ms = max(0, at_ms - self._now_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer, at_ms)

    def _on_timer(self, at_ms: int) -> None:
        self._timer = None
        if self._now_ms() < at_ms:
            # Event loops may call a little early, and the state machine would set no other timer.
            self._set_timer(at_ms)
        else:
            self.step(events.TimePassed())
