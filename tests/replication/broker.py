"""A simulated broker: the partition, the fetcher and the ISR proposals around the replication state machines."""

from collections.abc import Callable
from math import floor
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication.effects import Append, FetchLeaderOffsets, TruncateFullyTo, TruncateTo
from odradek.core.replication.epochs import divergence
from odradek.core.replication.follower import FetchPosition, FetchResponse, FollowerState
from odradek.core.replication.high_watermark import HighWatermark
from odradek.core.replication.leader import LeaderState
from tests.replication.controller import NO_BROKER, Image
from tests.replication.messages import (
    AlterPartition,
    Fetch,
    Fetched,
    Heartbeat,
    ListedOffsets,
    ListOffsets,
    Message,
    PartitionAltered,
    Register,
    Registered,
)
from tests.replication.model_log import ModelLog, Record

if TYPE_CHECKING:
    from tests.replication.world import World

CONTROLLER = 0
REQUEST_TIMEOUT_MS = 80
HEARTBEAT_MS = 30
IDLE_MS = 8


class Broker:
    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.log = ModelLog()
        self.life = 0
        self.is_running = False
        self.paused_until_ms = 0
        self.is_shutting_down = False
        self.leader: LeaderState | None = None
        self.follower: FollowerState | None = None
        self._is_clean = True
        self._broker_epoch: int | None = None
        self._latest_version = 0
        self.image: Image = world.controller.images[0]
        self.high_watermark = HighWatermark(0)
        self._checked_high_watermark = 0
        self._checkpoint = 0
        self._producers: list[tuple[int, int]] = []
        """Values that wait for acknowledgement, with the offset after each."""
        self._fetch_number = 0
        self._is_fetching = False
        self._is_syncing = False
        self._tick_at_ms: int | None = None

    # Start and stop
    def start(self) -> None:
        self.life += 1
        self.is_running, self.is_shutting_down = True, False
        self.paused_until_ms = 0
        self.leader = self.follower = None
        self._broker_epoch = None
        self._latest_version = 0
        self.image = self.world.controller.images[0]
        self._set_high_watermark(max(min(self._checkpoint, self.log.log_end_offset), self.log.log_start_offset))
        self._producers = []
        self._is_fetching = self._is_syncing = False
        self._tick_at_ms = None
        self.world.note(f"{self.broker_id} starts, its log ends at {self.log.log_end_offset}")
        self._register()
        self._send_heartbeat()
        self._run_background_work()
        self.world.resend_images(self.broker_id)

    def crash(self, *, loses_power: bool) -> None:
        before = self.log.log_end_offset
        self.log.crash(self.world.random, loses_power=loses_power)
        kept = f"keeps {self.log.log_end_offset} of {before}"
        self.world.note(f"{self.broker_id} {'loses power' if loses_power else 'is killed'}, {kept}")
        self._end(is_clean=False)

    def stop(self) -> None:
        """Clean shutdown: everything is synced."""
        self.log.sync()
        self._checkpoint = self.high_watermark.offset
        self.world.note(f"{self.broker_id} stops, its log ends at {self.log.log_end_offset}")
        self._end(is_clean=True)

    def _end(self, *, is_clean: bool) -> None:
        self.life += 1
        self.is_running = False
        self._is_clean = is_clean
        self.leader = self.follower = None

    def later(self, delay_ms: float, action: Callable[[], object]) -> None:
        """Runs `action` unless the process was restarted; waits while it is paused."""
        life = self.life

        def run() -> None:
            if self.life != life:
                return
            if self.paused_until_ms > self.world.now_ms:
                self.world.after(self.paused_until_ms - self.world.now_ms, run)
            else:
                action()

        self.world.after(delay_ms, run)

    # The controller

    def _register(self) -> None:
        if self._broker_epoch is None:
            self.world.send(self.broker_id, CONTROLLER, Register(self.broker_id, self.life, self._is_clean))
            self.later(REQUEST_TIMEOUT_MS, self._register)

    def _send_heartbeat(self) -> None:
        if self._broker_epoch is not None:
            beat = Heartbeat(self.broker_id, self._broker_epoch, self.image.version, self.is_shutting_down)
            self.world.send(self.broker_id, CONTROLLER, beat)
        self.later(HEARTBEAT_MS, self._send_heartbeat)

    def _run_background_work(self) -> None:
        """Background work at random intervals."""
        random = self.world.random
        self._checkpoint = self.high_watermark.offset
        if random.random() < 0.3:
            self.log.sync()
        self.later(random.randrange(20, 200), self._run_background_work)

    def on_images(self, version: int) -> None:
        if self.paused_until_ms > self.world.now_ms:
            self.later(0, lambda: self.on_images(version))
            return
        self._latest_version = max(self._latest_version, version)
        self._apply_images()

    def _apply_images(self) -> None:
        """Skips images until this process's registration is known: earlier ones concern a previous incarnation."""
        if self._broker_epoch is None or self._latest_version < self._broker_epoch:
            return
        while self.image.version < self._latest_version:
            self.image = self.world.controller.images[self.image.version + 1]
            if self.image.version >= self._broker_epoch:
                self._apply(self.image)

    def _apply(self, image: Image) -> None:
        partition = image.partition
        leader = self.leader
        if self.broker_id not in partition.replicas:
            self._resign()
            self.follower = None
            self.log = ModelLog()
            self._checkpoint = 0
            self._set_high_watermark(0)
        elif partition.leader != self.broker_id:
            self._resign()
            self._follow(partition.leader, partition.leader_epoch)
        elif leader is None or leader.leader_epoch < partition.leader_epoch:
            self._lead(image)
        else:
            leader.on_metadata_change(
                partition_epoch=partition.partition_epoch,
                replicas=partition.replicas,
                isr=partition.isr,
                now=self.world.now,
            )
            self._process_leader_state()

    def _resign(self) -> None:
        self.leader = None
        self._producers = []

    # Leader
    def counted_end_offset(self) -> int:
        return self.log.synced_end_offset if self.world.rules.syncs_first else self.log.log_end_offset

    def _lead(self, image: Image) -> None:
        partition = image.partition
        self.follower = None
        self._producers = []
        self.log.epochs.assign_unwritten(partition.leader_epoch, self.log.log_end_offset)
        self.world.note(
            f"{self.broker_id} leads epoch {partition.leader_epoch} from {self.log.log_end_offset},"
            f" high watermark {self.high_watermark.offset}, isr {partition.isr}"
        )
        self.world.checker.on_leadership(self, partition.leader_epoch)
        self.leader = LeaderState(
            broker_id=self.broker_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            replicas=partition.replicas,
            isr=partition.isr,
            min_isr=self.world.rules.min_isr,
            epoch_start_offset=self.log.log_end_offset,
            log_end_offset=self.counted_end_offset(),
            high_watermark=self.high_watermark,
            lag_max_seconds=self.world.rules.lag_max_ms / 1000,
            brokers=lambda broker_id: self.image.brokers.get(broker_id),
            now=self.world.now,
        )
        self.leader.advance_high_watermark(self.world.now)
        self._sync_soon()
        self._process_leader_state()

    def produce(self) -> None:
        if self.leader is None or self.leader.under_min_isr or self.paused_until_ms > self.world.now_ms:
            return
        value = self.world.next_value()
        end_offset = self.log.append_as_leader(self.leader.leader_epoch, value)
        self._producers.append((value, end_offset))
        self.leader.on_append(self.counted_end_offset(), self.world.now)
        self._sync_soon()
        self._process_leader_state()

    def delete_records(self, share: float) -> None:
        if self.leader is not None and self.leader.is_high_watermark_known:
            start = self.log.log_start_offset
            offset = start + round(share * (self.high_watermark.offset - start))
            self.world.note(f"{self.broker_id} deletes records before {offset}")
            self.world.checker.on_records_deleted(offset)
            self.log.advance_log_start(offset)

    def _sync_soon(self) -> None:
        if self.world.rules.syncs_first and not self._is_syncing:
            self._is_syncing = True
            end_offset, epoch = self.log.log_end_offset, self.image.partition.leader_epoch
            self.later(1 + self.world.random.randrange(6), lambda: self._on_synced(end_offset, epoch))

    def _on_synced(self, end_offset: int, epoch: int) -> None:
        self._is_syncing = False
        if epoch == self.image.partition.leader_epoch:
            self.log.synced_end_offset = max(self.log.synced_end_offset, min(end_offset, self.log.log_end_offset))
        if self.leader is not None:
            self.leader.on_append(self.counted_end_offset(), self.world.now)
            self._process_leader_state()
        if self.log.synced_end_offset < self.log.log_end_offset:
            self._sync_soon()

    def _process_leader_state(self) -> None:
        """Acts on the leader's state after every event that it has processed."""
        leader = self.leader
        assert leader is not None
        self.world.checker.high_watermark(
            self, leader.leader_epoch, leader.high_watermark, self.image, is_returned=leader.is_high_watermark_known
        )
        self._checked_high_watermark = leader.high_watermark
        still_waiting = []
        for value, end_offset in self._producers:
            match leader.acks_all_result(end_offset):
                case None:
                    still_waiting.append((value, end_offset))
                case ErrorCode.none:
                    self.world.checker.acknowledge(self, end_offset - 1, leader.leader_epoch, value)
        self._producers = still_waiting
        proposal = leader.take_proposal(self.world.now)
        if proposal is not None:
            assert self._broker_epoch is not None
            message = AlterPartition(self.broker_id, self._broker_epoch, proposal)
            self.world.send(self.broker_id, CONTROLLER, message)
            failure = PartitionAltered(proposal, ErrorCode.request_timed_out)
            self.later(REQUEST_TIMEOUT_MS, lambda: self.receive(CONTROLLER, 0, failure))
        self._tick_when_due()

    def _tick_when_due(self) -> None:
        assert self.leader is not None
        deadline = self.leader.next_deadline(self.world.now)
        if deadline is None:
            return
        # Round up: a tick before the deadline would be scheduled again and again.
        at_ms = max(self.world.now_ms, floor(deadline * 1000) + 1)
        if self._tick_at_ms is None or at_ms < self._tick_at_ms:
            self._tick_at_ms = at_ms
            self.later(at_ms - self.world.now_ms, self._tick)

    def _tick(self) -> None:
        self._tick_at_ms = None
        if self.leader is not None:
            self.leader.tick(self.world.now)
            self._process_leader_state()

    # Requests and responses
    def receive(self, source: int, source_life: int, message: Message) -> None:
        if not self.is_running:
            return
        if self.paused_until_ms > self.world.now_ms:
            self.later(0, lambda: self.receive(source, source_life, message))
            return
        match message:
            case Registered(broker_epoch):
                if self._broker_epoch is None:
                    self._broker_epoch = broker_epoch
                    self._apply_images()
            case PartitionAltered(proposal, response):
                if self.leader is not None:
                    self.leader.on_proposal_response(proposal, response, self.world.now)
                    self._process_leader_state()
            case Fetch():
                self.world.send(self.broker_id, source, self._serve(message), source_life)
            case ListOffsets():
                self.world.send(self.broker_id, source, self._list_offsets(message), source_life)
            case Fetched():
                self._on_fetched(message)
            case ListedOffsets():
                self._on_offsets(message)

    def refusal_by_epoch(self, leader_epoch: int) -> ErrorCode | None:
        own = self.image.partition.leader_epoch
        if leader_epoch < own:
            return ErrorCode.fenced_leader_epoch
        if leader_epoch > own:
            return ErrorCode.unknown_leader_epoch
        return None

    def _serve(self, fetch: Fetch) -> Fetched:
        position = fetch.position
        error = self.refusal_by_epoch(position.leader_epoch)
        leader = self.leader
        if error is not None or leader is None:
            return Fetched(position, FetchResponse(error=error or ErrorCode.not_leader_or_follower))
        try:
            leader.check_follower(fetch.replica_id, fetch.broker_epoch)
            diverging = divergence(self.log, position.fetch_offset, position.last_fetched_epoch)
            if diverging is None:
                leader.on_fetch(
                    fetch.replica_id,
                    fetch.broker_epoch,
                    position.fetch_offset,
                    position.log_start_offset,
                    self.world.now,
                )
                self._process_leader_state()
        except KafkaError as refused:
            return Fetched(position, FetchResponse(error=refused.code))
        records_max = self.world.random.randint(1, self.world.records_per_fetch_max)
        records = () if diverging is not None else self.log.read(position.fetch_offset, records_max)
        response = FetchResponse(
            high_watermark=leader.high_watermark,
            log_start_offset=self.log.log_start_offset,
            diverging=diverging,
            first_offset=position.fetch_offset if records else None,
        )
        return Fetched(position, response, records)

    def _list_offsets(self, request: ListOffsets) -> ListedOffsets:
        error = self.refusal_by_epoch(request.leader_epoch)
        if error is not None or self.leader is None:
            return ListedOffsets(request.leader_epoch, error or ErrorCode.not_leader_or_follower)
        return ListedOffsets(request.leader_epoch, ErrorCode.none, self.log.log_start_offset, self.log.log_end_offset)

    # Follower
    def _follow(self, leader_id: int, leader_epoch: int) -> None:
        if self.follower is None:
            if leader_id == NO_BROKER:
                return
            self.follower = FollowerState(
                leader_id=leader_id,
                leader_epoch=leader_epoch,
                high_watermark=self.high_watermark,
                backoff_max_seconds=0.05,
            )
        elif leader_epoch == self.follower.leader_epoch:
            return
        else:
            self.follower.follow(leader_id, leader_epoch)
        self.world.note(f"{self.broker_id} follows {leader_id} in epoch {leader_epoch} at {self.log.log_end_offset}")
        self._is_fetching = False
        self._fetch()

    def is_ready_to_fetch(self) -> bool:
        return not self.world.rules.syncs_first or self.log.synced_end_offset == self.log.log_end_offset

    def _fetch(self) -> None:
        follower = self.follower
        if follower is None or self._is_fetching or follower.leader_id == NO_BROKER:
            return
        if not self.is_ready_to_fetch():
            self._sync_soon()
            self._fetch_later(2)
            return
        position = follower.fetch_position(self.log, self.world.now)
        if position is None:
            if follower.next_fetch_at is not None:
                self._fetch_later(max(1.0, follower.next_fetch_at * 1000 - self.world.now_ms))
            return
        assert self._broker_epoch is not None
        self._is_fetching = True
        self._fetch_number += 1
        number = self._fetch_number
        self.world.send(self.broker_id, follower.leader_id, Fetch(self.broker_id, self._broker_epoch, position))
        self.later(REQUEST_TIMEOUT_MS, lambda: self._on_fetch_failed(number, position))

    def _fetch_later(self, delay_ms: float) -> None:
        self._fetch_number += 1
        number = self._fetch_number

        def fetch() -> None:
            if number == self._fetch_number:
                self._fetch()

        self.later(delay_ms, fetch)

    def _on_fetch_failed(self, number: int, position: FetchPosition) -> None:
        if number == self._fetch_number and self._is_fetching and self.follower is not None:
            self._is_fetching = False
            self.follower.on_fetch_failure(position, self.world.now)
            self._fetch()

    def _on_fetched(self, message: Fetched) -> None:
        follower = self.follower
        if follower is None:
            return
        is_late = message.position.leader_epoch != follower.leader_epoch
        effect = follower.on_fetch_response(self.log, message.position, message.response, self.world.now)
        match effect:
            case Append(restart_at):
                if restart_at is not None:
                    self.log.truncate_fully_to(restart_at)
                self.log.append_as_follower(message.records)
                self.log.advance_log_start(follower.on_append(self.log, message.response))
                self._process_follower_state()
            case TruncateTo() | TruncateFullyTo():
                self._truncate(effect)
            case FetchLeaderOffsets():
                epoch = follower.leader_epoch
                self._is_fetching = False
                self.world.send(self.broker_id, follower.leader_id, ListOffsets(self.broker_id, epoch))
                failure = ListedOffsets(epoch, ErrorCode.network_exception)
                self.later(REQUEST_TIMEOUT_MS, lambda: self._on_offsets(failure))
                return
        if not is_late:
            self._is_fetching = False
            self._fetch_later(1 + self.world.random.randrange(1 if message.records else IDLE_MS))

    def _on_offsets(self, message: ListedOffsets) -> None:
        follower = self.follower
        if follower is None or follower.next_fetch_at is not None:
            return
        now = self.world.now
        if message.error is not ErrorCode.none:
            follower.on_leader_offsets_failure(message.leader_epoch, message.error, now)
        else:
            effect = follower.on_leader_offsets(
                self.log, message.leader_epoch, message.start_offset, message.end_offset, now
            )
            if isinstance(effect, TruncateTo | TruncateFullyTo):
                self._truncate(effect)
        self._fetch()

    def _truncate(self, effect: TruncateTo | TruncateFullyTo) -> None:
        assert self.follower is not None
        self.world.note(f"{self.broker_id} truncates its log with end offset {self.log.log_end_offset}: {effect}")
        self.world.checker.on_truncation(self, effect.offset)
        if isinstance(effect, TruncateTo):
            self.log.truncate_to(effect.offset)
        else:
            self.log.truncate_fully_to(effect.offset)
        self.high_watermark.on_truncation(self.log.log_start_offset, self.log.log_end_offset)
        self._checked_high_watermark = min(self._checked_high_watermark, self.high_watermark.offset)
        self._process_follower_state()

    def _process_follower_state(self) -> None:
        assert self.follower is not None
        self.world.checker.on_follower_progress(self, self._checked_high_watermark, self.follower.high_watermark)
        self._checked_high_watermark = self.follower.high_watermark

    def _set_high_watermark(self, offset: int) -> None:
        """For a log that was just opened, or replaced by an empty one."""
        self.high_watermark = HighWatermark(offset)
        self._checked_high_watermark = offset

    def records(self) -> list[Record]:
        return self.log.records[max(0, self.log.log_start_offset - self.log.base_offset) :]
