"""A minimal shard that counts by name, with a real context, runtime and log."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.base.ports import Pool
from odradek.base.record_form import UnwritableRecord
from odradek.broker.coordinators.runtime import CoordinatorRuntime
from odradek.broker.coordinators.shard import RuntimeSettings, Token, UnservedRecord
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.leader import LeaderState
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.storage.log.log_dir_health import LogDirHealth
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.log_dir_threads import LogDirThreads
from odradek.storage.partition.partition import FollowerFetch, Partition

T = TypeVar("T")

TOPIC = "__tally"
FOLLOWER: Final = FollowerFetch(2, 20)


class Count(NamedTuple):
    name: str
    by: int = 1
    waits_for_written: bool = False


class Put(NamedTuple):
    """Independent of the count before."""

    name: str
    count: int


class Read(NamedTuple):
    name: str
    committed: bool = True


class Clear(NamedTuple):
    """Writes a record for every name."""

    is_atomic: bool


class Break(NamedTuple):
    """Makes the shard raise an exception."""


Command = Count | Put | Read | Clear | Break


class Response(NamedTuple):
    error: ErrorCode
    count: int = -1


class Producer(NamedTuple):
    id: int
    epoch: int


@dataclass
class Result:
    records: list[tuple[str, int]] = field(default_factory=list)
    responses: list[tuple[Token, Response]] = field(default_factory=list)
    responses_after_commit: list[tuple[Token, Response]] = field(default_factory=list)
    write_event: Any = None
    replays: bool = True
    is_atomic: bool = True
    producer: Producer | None = None


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.high_watermark = 0
        self.committed_at_replay: list[bool] = []
        self.offsets: list[int] = []
        self.markers: list[tuple[int, bool, int]] = []
        self.alarms: list[int] = []
        self.passed: list[int] = []
        self.waiting: list[Token] = []
        self.written_with: list[ErrorCode] = []

    def handle(self, command: Command, token: Token, now_ms: int) -> Result:
        match command:
            case Count(name, by, waits):
                count = self.counts.get(name, 0) + by
                if waits:
                    self.waiting.append(token)
                    return Result([(name, count)], write_event=name)
                return Result([(name, count)], responses_after_commit=[(token, Response(ErrorCode.none, count))])
            case Put(name, count):
                if count < 0:
                    return Result(responses=[(token, Response(ErrorCode.invalid_request))])
                return Result([(name, count)], responses_after_commit=[(token, Response(ErrorCode.none, count))])
            case Read(name, committed):
                response = (token, Response(ErrorCode.none, self.counts.get(name, 0)))
                return Result(responses_after_commit=[response]) if committed else Result(responses=[response])
            case Clear(is_atomic):
                responses = [(token, Response(ErrorCode.none))]
                return Result([(name, 0) for name in self.counts], [], responses, is_atomic=is_atomic)
            case Break():
                raise RuntimeError("a fault")

    def replay(self, record: tuple[str, int], offset: int, now_ms: int, producer_id: int) -> None:
        name, count = record
        self.counts[name] = count
        self.offsets.append(offset)
        self.committed_at_replay.append(offset < self.high_watermark)

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        self.markers.append((producer_id, commits, offset))

    def advance_high_watermark(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark

    def on_written(self, written: Any, error: ErrorCode, now_ms: int) -> Result:
        self.written_with.append(error)
        waiting, self.waiting = self.waiting, []
        return Result(responses=[(token, Response(error, self.counts.get(written, 0))) for token in waiting])

    def next_deadline_ms(self) -> int | None:
        return min(self.alarms, default=None)

    def expire_deadline(self, now_ms: int) -> Result | None:
        due = min(self.alarms, default=now_ms + 1)
        if due > now_ms:
            return None
        self.alarms.remove(due)
        self.passed.append(due)
        return Result([("alarm", len(self.passed))])

    def on_loaded(self, now_ms: int) -> Sequence[Result]:
        return [Result([("loaded", self.counts.get("loaded", 0) + 1)])] if "loaded" in self.counts else []

    def on_unloaded(self, now_ms: int) -> Result:
        return Result(responses=[(token, Response(ErrorCode.not_coordinator, -7)) for token in self.waiting])


class TallyKind:
    topic = TOPIC

    def __init__(self, write_timeout_ms: int) -> None:
        self.settings = RuntimeSettings(write_timeout_ms)

    def new_shard(self, partition: int, leader_epoch: int) -> Tally:
        return Tally()

    def error_response(self, command: Command, error: ErrorCode) -> Response:
        return Response(error)

    def is_independent(self, command: Command) -> bool:
        return isinstance(command, Put)

    def encode(self, record: tuple[str, int]) -> tuple[bytes, bytes | None]:
        if record[0] == "unwritable":
            raise UnwritableRecord("record too large")
        return record[0].encode(), str(record[1]).encode()

    def decode(self, key: bytes | None, value: bytes | None) -> tuple[str, int] | None:
        assert key is not None and value is not None
        if key == b"unserved":
            raise UnservedRecord("unsupported record")
        return None if key == b"ignored" else (key.decode(), int(value))


class Threads:
    """Runs work in a later turn of the loop, unless the test holds it."""

    def __init__(self) -> None:
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.runs = 0

    async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
        await asyncio.sleep(0)
        await self.may_run.wait()
        self.runs += 1
        return work()


class SetPace(LogDirHealth):
    """As slow as the test says, however slow the computer is."""

    def on_write(self, seconds: float, now: float) -> None:
        """Ignores the measured time."""


class Registered(NamedTuple):
    epoch: int = 20
    fenced: bool = False
    in_controlled_shutdown: bool = False


class Broker:
    def __init__(self, directory: Path, *, write_timeout_ms: int = 5000, **configs: Any) -> None:
        self.clock = SystemClock()
        self.threads = Threads()
        self.failed: list[OSError] = []
        self.log = PartitionLog.open(
            HostDisk(),
            str(directory / f"{TOPIC}-0"),
            topic_partition=TopicPartition(TOPIC, 0),
            topic_id=UUID(int=9),
            config=TopicConfig.resolve({name.replace("_", "."): str(value) for name, value in configs.items()}),
            now_ms=0,
        )
        # Opens the files, as the first appends do, which run in a thread for that reason.
        segment = self.log.active_segment
        for file in (segment.log, segment.offset_index, segment.time_index):
            file.file()
        self.pace = SetPace()
        self.partition = Partition(
            TopicPartition(TOPIC, 0),
            UUID(int=9),
            self.log,
            threads=LogDirThreads(str(directory), self.threads, self.pace),
            clock=self.clock,
            on_disk_failure=lambda _, error: self.failed.append(error),
            high_watermark=0,
        )
        self.runtime = CoordinatorRuntime[Command, Response, tuple[str, int]](
            TallyKind(write_timeout_ms),
            clock=self.clock,
            workers=ThreadWorkers(self.threads, HostDisk(), load_program),
            on_disk_failure=lambda _, error: self.failed.append(error),
        )

    def lead(self, epoch: int = 1, *, single: bool = True, min_isr: int = 1) -> None:
        replication = None
        if not single:
            replication = LeaderState(
                broker_id=1,
                leader_epoch=epoch,
                partition_epoch=1,
                replicas=(1, 2),
                isr=(1, 2),
                min_isr=min_isr,
                epoch_start_offset=self.log.log_end_offset,
                log_end_offset=self.log.log_end_offset,
                high_watermark=self.partition.shared_high_watermark,
                lag_max_seconds=10.0,
                brokers=lambda _: Registered(),
                now=self.clock.monotonic(),
            )
        self.partition.become_leader(1, epoch, replication)
        self.runtime.update_role(self.partition)

    def follow(self, epoch: int) -> None:
        self.partition.become_leaderless(epoch)
        self.runtime.update_role(self.partition)

    def replicate(self) -> None:
        """The follower fetches everything."""
        self.partition.on_follower_fetch(FOLLOWER, self.log.log_end_offset, 0)

    def submit(self, command: Command) -> DeferredResponse:
        return self.runtime.coordinator(0).submit(command)

    def respond(self, command: Command) -> Response:
        """The response that is complete at once."""
        deferred = self.submit(command)
        assert deferred.is_done
        response: Response = deferred.result
        return response

    async def wait_for_response(self, command: Command) -> Response:
        response: Response = await asyncio.wait_for(self.submit(command).wait(), 10)
        return response

    @property
    def shard(self) -> Tally:
        context = self.runtime.context(0)
        assert context is not None
        shard = context._shard
        assert isinstance(shard, Tally)
        return shard

    async def wait_until_loaded(self) -> None:
        while (context := self.runtime.context(0)) is None or not context.is_active:
            await asyncio.sleep(0.001)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))
