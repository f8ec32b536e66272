"""Hosts this node's replica of the metadata log: carries out, in order, what consensus wants done.

The machine in `raft/` decides, and this file talks: to the disk through the store, to the other replicas through
their peers, to the clock through timers. An effect that has to wait for the disk holds up those behind it; only the
sync of appended batches goes on beside them, one at a time, and serves all that was appended before it began.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Executor
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects as do
from odradek.core.raft import events as hear
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.machine import RaftMachine
from odradek.core.raft.messages import FetchSnapshotResponse
from odradek.core.raft.voters import Quorum
from odradek.quorum import wire
from odradek.quorum.misfits import Misfits
from odradek.quorum.peers import Peers
from odradek.quorum.store import OffsetOutOfLog, QuorumStore
from odradek.records.batch import CorruptBatch
from odradek.wire.schemas import Message, schema

logger = logging.getLogger(__name__)

LANE: Final = "metadata"
REQUESTS_MAX: Final = 10_000
"""Open ones, of other nodes. A replica has one at a time; anything like this number is an attack or a fault."""


class LeaderAddress(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


class _Clean(NamedTuple):
    """A chore of the host's own, which takes its turn among the effects."""

    config: NodeConfig
    now_ms: int
    done: "asyncio.Future[None]"


class Follower(Protocol):
    """Who wants to know what becomes of this replica. Called in the order in which things happen."""

    def committed_up_to(self, end_offset: int) -> None: ...

    def snapshot_loaded(self, image: ClusterImage) -> None:
        """Everything before its end is committed and stands in it; the log begins behind it."""

    def became_controller(self, epoch: int) -> None:
        """Everything in the log before this moment is committed."""

    def lost_leadership(self, epoch: int) -> None: ...

    def broke(self, error: Exception) -> None:
        """Nothing more will be heard from this replica."""


class QuorumDriver:
    def __init__(
        self,
        machine: RaftMachine,
        store: QuorumStore,
        peers: Peers,
        misfits: Misfits,
        *,
        clock: Clock,
        executor: Executor,
        failed: Callable[[Exception], None],
    ) -> None:
        self._machine: Final = machine
        self._store: Final = store
        self._peers: Final = peers
        self._misfits: Final = misfits
        self._clock: Final = clock
        self._executor: Final = executor
        self._failed: Final = failed
        self._followers: Final[list[Follower]] = []
        self._leader_listeners: Final[list[Callable[[], None]]] = []
        self._waiting: Final[deque[do.Effect | _Clean]] = deque()
        self._is_carrying_out = False
        self._carrying: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._appended_change = 0
        self._synced_change = 0
        self._timer: asyncio.TimerHandle | None = None
        self._answers: Final[dict[int, asyncio.Future[Any]]] = {}
        self._last_request_id = 0
        self._ready_to_stop: Final = asyncio.get_running_loop().create_future()
        self._is_over = False

    # Views

    @property
    def machine(self) -> RaftMachine:
        """To look at. Only `step` may change it."""
        return self._machine

    @property
    def is_leader(self) -> bool:
        return self._machine.is_leader

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    @property
    def log_end_offset(self) -> int:
        return self._machine.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._machine.high_watermark

    @property
    def leader(self) -> LeaderAddress | None:
        """None while nobody leads, or nobody has said where the leader is."""
        leader_id = self._machine.leader_id
        if leader_id is None:
            return None
        address = self._peers.address_of(leader_id, self._machine.leader_endpoints)
        return None if address is None else LeaderAddress(leader_id, self._machine.epoch, *address)

    def on_leader_change(self, told: Callable[[], None]) -> None:
        self._leader_listeners.append(told)

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    def fetched_recently(self, within_seconds: float) -> bool:
        """Of a leader: a majority of the voters, this one included, has fetched within that time."""
        status = self._machine.describe()
        if status.error is not ErrorCode.none:
            return False
        since_ms = self._now_ms() - within_seconds * 1000
        recent = sum(voter.last_fetch_ms >= since_ms for voter in status.voters)
        return recent > len(status.voters) // 2

    # Life

    def start(self) -> None:
        self._peers.use(self.step)
        self._take(self._machine.start(self._now_ms()))

    async def stop(self, seconds_max: float) -> None:
        """Hands leadership over, as far as somebody takes it, and ends. Nothing is written any more."""
        if not self._is_over:
            self.step(hear.StopRequested())
            await asyncio.wait([self._ready_to_stop], timeout=seconds_max)
        self._end()
        tasks = [task for task in (self._carrying, self._flushing) if task is not None]
        if tasks:
            await asyncio.wait(tasks)
        await self._peers.close()

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for effect in self._waiting:
            if isinstance(effect, _Clean):
                effect.done.cancel()
        self._waiting.clear()
        for answer in self._answers.values():
            answer.cancel()
        self._answers.clear()

    def _fail(self, error: Exception) -> None:
        """After a failed write nobody knows what the disk holds: this replica says nothing more."""
        if self._is_over:
            return
        for follower in self._followers:
            follower.broke(error)
        self._end()
        self._failed(error)

    # Into the machine

    def step(self, event: hear.Event) -> tuple[do.Effect, ...]:
        if self._is_over:
            return ()
        try:
            effects = self._machine.step(event, self._now_ms())
        except BrokenQuorum as error:
            self._fail(error)
            return ()
        self._take(effects)
        return effects

    def offer(self, epoch: int, record_count: int, data: bytes) -> int:
        """Appends one batch as the leader of this epoch; returns its first offset. Raises KafkaError otherwise."""
        for effect in self.step(hear.RecordsOffered(epoch, record_count, data)):
            if isinstance(effect, do.Append):
                return effect.batches[0].base_offset
        raise KafkaError(ErrorCode.not_controller)

    def raise_kraft_version(self, epoch: int, kraft_version: int) -> int:
        """Returns the offset of the last record that says so. Raises KafkaError where the quorum cannot take it now."""
        for effect in self.step(hear.KRaftVersionWanted(epoch, kraft_version)):
            if isinstance(effect, do.Append):
                return effect.batches[0].last_offset
            if isinstance(effect, do.RecordsRefused):
                raise KafkaError(ErrorCode.invalid_update_version, effect.reason)
        raise KafkaError(ErrorCode.not_controller)

    async def answer(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        """A request of another node, or of somebody who looks at the quorum."""
        messages = schema(api_key, version)
        if self._is_over or len(self._answers) >= REQUESTS_MAX:
            return wire.refuse(api_key, messages, ErrorCode.broker_not_available)
        try:
            message = wire.read_request(api_key, request, messages)
        except wire.RefusedRequest as refused:
            return refused.response
        self._last_request_id += 1
        request_id = self._last_request_id
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        try:
            self.step(hear.RequestReceived(request_id, message))
            response, records = await answer
        finally:
            self._answers.pop(request_id, None)
        self._misfits.asked(message, response.error)
        return wire.write_response(
            api_key, messages, response, records=records, listener_name=listener_name, wall_ms_of=self._wall_ms_of
        )

    def resign(self, epoch: int) -> None:
        """For a controller that cannot go on, while its replica can."""
        self.step(hear.ResignRequested(epoch))

    def snapshot_taken(self, snapshot_id: SnapshotId, size_bytes: int) -> None:
        # While it was written, the leader's own may have taken the place of the whole log.
        if snapshot_id.end_offset >= self._machine.log_start_offset:
            self.step(hear.SnapshotTaken(snapshot_id, size_bytes))

    async def clean(self, config: NodeConfig, now_ms: int) -> None:
        """Removes what retention has passed. The log has one writer at a time, and this is a kind of writing."""
        if self._is_over:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._take((_Clean(config, now_ms, done),))
        await done

    def quorum_at(self, end_offset: int) -> Quorum:
        return self._machine.quorum_at(end_offset)

    # Out of the machine

    def _take(self, effects: Iterable["do.Effect | _Clean"]) -> None:
        self._waiting.extend(effects)
        # Whoever is told of an effect may bring about others: they are for later.
        if not self._is_carrying_out:
            self._is_carrying_out = True
            self._carry_out_at_once()

    def _carry_out_at_once(self) -> None:
        """Everything up to the first that has to wait for the disk."""
        while self._waiting and not self._is_over:
            effect = self._waiting.popleft()
            try:
                is_done = self._do(effect)
            except OSError as error:
                # Not to be heard by whoever happens to be here: a node that asks for something, or this one's timer.
                self._fail(error)
                break
            if not is_done:
                self._carrying = asyncio.ensure_future(self._carry_out(effect))
                return
        self._is_carrying_out = False

    async def _carry_out(self, first: "do.Effect | _Clean") -> None:
        try:
            await self._do_slowly(first)
            while self._waiting and not self._is_over:
                effect = self._waiting.popleft()
                if not self._do(effect):
                    await self._do_slowly(effect)
        except (OSError, CorruptBatch, ValueError) as error:
            self._fail(error)
        finally:
            self._carrying = None
            self._is_carrying_out = False

    def _do(self, effect: "do.Effect | _Clean") -> bool:
        """False: it has to wait for the disk, and what comes behind it waits with it."""
        match effect:
            case do.Send():
                self._peers.send(effect)
            case do.Respond(request_id, message):
                self._respond(request_id, message)
            case do.Append(change, batches):
                self._store.append(batches, self._clock.wall_ms())
                self._appended_change = change
                self._flush()
            case do.RespondWithRecords(request_id, message, start_offset, end_offset, max_bytes):
                records = self._read(self._store.read_cached, start_offset, end_offset, max_bytes)
                if records is None:
                    return False
                self._respond(request_id, message, records)
            case do.HighWatermarkMoved(offset):
                for follower in self._followers:
                    follower.committed_up_to(offset)
            case do.LeadershipConfirmed(epoch):
                for follower in self._followers:
                    follower.became_controller(epoch)
            case do.LostLeadership(epoch):
                for follower in self._followers:
                    follower.lost_leadership(epoch)
            case do.LeaderChanged(leader_id, epoch):
                logger.info(
                    "the quorum's leader of epoch %d is %s", epoch, leader_id if leader_id >= 0 else "not known"
                )
                for told in self._leader_listeners:
                    told()
            case do.SetTimer(at_ms):
                self._set_timer(at_ms)
            case do.ReadyToStop():
                if not self._ready_to_stop.done():
                    self._ready_to_stop.set_result(None)
            case do.BecameLeader() | do.RecordsRefused():
                # Whoever offered records sees it among the effects of its own step.
                pass
            case _:
                return False
        return True

    async def _do_slowly(self, effect: "do.Effect | _Clean") -> None:
        store, run = self._store, self._executor.run
        match effect:
            case do.PersistQuorumState(state, kraft_version, voter_ids):
                await run(lambda: store.write_quorum_state(state, kraft_version, voter_ids), lane=LANE)
            case do.Truncate(change, end_offset):
                now_ms = self._clock.wall_ms()
                await run(lambda: store.truncate(end_offset, now_ms), lane=LANE)
                self._note_synced(change)
            case do.RespondWithRecords(request_id, message, start_offset, end_offset, max_bytes):
                records = await run(lambda: self._read(store.read, start_offset, end_offset, max_bytes), lane=LANE)
                self._respond(request_id, message, records or b"")
            case do.RespondWithSnapshot(request_id, message, max_bytes):
                await self._respond_with_snapshot(request_id, message, max_bytes)
            case do.WriteSnapshotPiece(snapshot_id, position, data):
                await run(lambda: store.write_piece(snapshot_id, position, data), lane=LANE)
            case do.AbandonSnapshot(snapshot_id):
                await run(lambda: store.abandon_pieces(snapshot_id), lane=LANE)
            case do.LoadSnapshot(change, snapshot_id):
                await self._load_snapshot(change, snapshot_id)
            case _Clean(config, now_ms, done):
                try:
                    cleaned_up_to = await run(lambda: store.clean(config, now_ms), lane=LANE)
                    if cleaned_up_to is not None:
                        self.step(hear.LogStartAdvanced(cleaned_up_to))
                finally:
                    # Whatever became of it: its failure is this replica's, and somebody waits.
                    done.set_result(None)

    # The log

    def _flush(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush_all())

    async def _flush_all(self) -> None:
        try:
            while self._synced_change < self._appended_change and not self._is_over:
                change = self._appended_change
                await self._executor.run(self._store.flush, lane=LANE)
                self._note_synced(change)
        except OSError as error:
            self._fail(error)
        finally:
            self._flushing = None

    def _note_synced(self, change: int) -> None:
        if change > self._synced_change:
            self._synced_change = change
            self._appended_change = max(self._appended_change, change)
            self.step(hear.LogSynced(change))

    async def _load_snapshot(self, change: int, snapshot_id: SnapshotId) -> None:
        now_ms = self._clock.wall_ms()
        store = self._store
        image, quorum, size_bytes = await self._executor.run(lambda: store.load_pieces(snapshot_id, now_ms), lane=LANE)
        self._synced_change = self._appended_change = change
        logger.info("loaded metadata snapshot %s", snapshot_id.file_name)
        for follower in self._followers:
            follower.snapshot_loaded(image)
        self.step(hear.SnapshotLoaded(snapshot_id, size_bytes, quorum))

    # Answers

    @staticmethod
    def _read(
        read: Callable[[int, int, int], bytes | None], start_offset: int, end_offset: int, max_bytes: int
    ) -> bytes | None:
        try:
            return read(start_offset, end_offset, max_bytes)
        except OffsetOutOfLog:
            # Cleaned since it was decided to send them: the next Fetch is told of a snapshot.
            return b""

    def _respond(self, request_id: int, message: Any, records: bytes = b"") -> None:
        answer = self._answers.pop(request_id, None)
        if answer is not None and not answer.done():
            answer.set_result((message, records))

    async def _respond_with_snapshot(self, request_id: int, message: FetchSnapshotResponse, max_bytes: int) -> None:
        store, snapshot_id, position = self._store, message.snapshot_id, message.position
        if request_id not in self._answers or snapshot_id is None:
            return
        try:
            data = await self._executor.run(lambda: store.read_snapshot(snapshot_id, position, max_bytes), lane=LANE)
        except FileNotFoundError:
            # Cleaned since it was decided to send it: the next Fetch is told of another.
            self._respond(request_id, replace(message, error=ErrorCode.snapshot_not_found))
        else:
            self._respond(request_id, replace(message, data=data))

    # Time

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _wall_ms_of(self, at_ms: int) -> int:
        """Of a moment in the machine's own time; -1 stands for never in both."""
        return -1 if at_ms < 0 else self._clock.wall_ms() - (self._now_ms() - at_ms)

    def _set_timer(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # In whole milliseconds, as the machine counts them: rounded otherwise, no time at all might be left to wait.
        delay_ms = max(0, at_ms - self._now_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_has_come, at_ms)

    def _time_has_come(self, at_ms: int) -> None:
        self._timer = None
        if self._now_ms() < at_ms:
            # Loops are free to be a little early; the machine would not be asked again.
            self._set_timer(at_ms)
        else:
            self.step(hear.TimePassed())
