"""A machine as small as can be, behind a real host and a real log: it counts what it is told, by name."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.base.record_form import UnwritableRecord
from odradek.broker.coordinators.machine import HostSettings, Token, UnservedRecord
from odradek.broker.coordinators.registry import Coordinators
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.leader import LeaderState
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.partition.append_latency import AppendLatency
from odradek.storage.partition.partition import FollowerFetch, Partition

T = TypeVar("T")

TOPIC = "__tally"
FOLLOWER: Final = FollowerFetch(2, 20)


class Count(NamedTuple):
    name: str
    by: int = 1
    waits_for_written: bool = False


class Put(NamedTuple):
    """Whatever was counted before."""

    name: str
    count: int


class Ask(NamedTuple):
    name: str
    committed: bool = True


class Clear(NamedTuple):
    """Every name gets a record, in as many batches as it takes."""

    is_atomic: bool


class Break(NamedTuple):
    """A fault of the machine."""


Command = Count | Put | Ask | Clear | Break


class Answer(NamedTuple):
    error: ErrorCode
    count: int = -1


class Producer(NamedTuple):
    id: int
    epoch: int


@dataclass
class Step:
    records: list[tuple[str, int]] = field(default_factory=list)
    answers: list[tuple[Token, Answer]] = field(default_factory=list)
    answers_when_committed: list[tuple[Token, Answer]] = field(default_factory=list)
    on_written: Any = None
    replays: bool = True
    is_atomic: bool = True
    producer: Producer | None = None


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.high_watermark = 0
        self.offsets: list[int] = []
        self.markers: list[tuple[int, bool, int]] = []
        self.alarms: list[int] = []
        self.passed: list[int] = []
        self.waiting: list[Token] = []
        self.written_with: list[ErrorCode] = []

    def handle(self, command: Command, token: Token, now_ms: int) -> Step:
        match command:
            case Count(name, by, waits):
                count = self.counts.get(name, 0) + by
                if waits:
                    self.waiting.append(token)
                    return Step([(name, count)], on_written=name)
                return Step([(name, count)], answers_when_committed=[(token, Answer(ErrorCode.none, count))])
            case Put(name, count):
                if count < 0:
                    return Step(answers=[(token, Answer(ErrorCode.invalid_request))])
                return Step([(name, count)], answers_when_committed=[(token, Answer(ErrorCode.none, count))])
            case Ask(name, committed):
                answer = (token, Answer(ErrorCode.none, self.counts.get(name, 0)))
                return Step(answers_when_committed=[answer]) if committed else Step(answers=[answer])
            case Clear(is_atomic):
                answers = [(token, Answer(ErrorCode.none))]
                return Step([(name, 0) for name in self.counts], [], answers, is_atomic=is_atomic)
            case Break():
                raise RuntimeError("a fault")

    def replay(self, record: tuple[str, int], offset: int, now_ms: int, producer_id: int) -> None:
        name, count = record
        self.counts[name] = count
        self.offsets.append(offset)

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        self.markers.append((producer_id, commits, offset))

    def advance(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark

    def written(self, written: Any, error: ErrorCode, now_ms: int) -> Step:
        self.written_with.append(error)
        waiting, self.waiting = self.waiting, []
        return Step(answers=[(token, Answer(error, self.counts.get(written, 0))) for token in waiting])

    def next_deadline_ms(self) -> int | None:
        return min(self.alarms, default=None)

    def pass_deadline(self, now_ms: int) -> Step | None:
        due = min(self.alarms, default=now_ms + 1)
        if due > now_ms:
            return None
        self.alarms.remove(due)
        self.passed.append(due)
        return Step([("alarm", len(self.passed))])

    def loaded(self, now_ms: int) -> Sequence[Step]:
        return [Step([("loaded", self.counts.get("loaded", 0) + 1)])] if "loaded" in self.counts else []

    def unload(self, now_ms: int) -> Step:
        return Step(answers=[(token, Answer(ErrorCode.not_coordinator, -7)) for token in self.waiting])


class TallyKind:
    topic = TOPIC

    def __init__(self, write_timeout_ms: int) -> None:
        self.settings = HostSettings(write_timeout_ms)

    def new_machine(self, partition: int, leader_epoch: int) -> Tally:
        return Tally()

    def refuse(self, command: Command, error: ErrorCode) -> Answer:
        return Answer(error)

    def is_independent(self, command: Command) -> bool:
        return isinstance(command, Put)

    def encode(self, record: tuple[str, int]) -> tuple[bytes, bytes | None]:
        if record[0] == "unwritable":
            raise UnwritableRecord("nobody could read this")
        return record[0].encode(), str(record[1]).encode()

    def decode(self, key: bytes | None, value: bytes | None) -> tuple[str, int] | None:
        assert key is not None and value is not None
        if key == b"unserved":
            raise UnservedRecord("nobody serves this")
        return None if key == b"ignored" else (key.decode(), int(value))


class Threads:
    """Runs work when the loop comes round, unless it is held."""

    def __init__(self) -> None:
        self.may_run = asyncio.Event()
        self.may_run.set()

    async def run(self, work: Callable[[], T], *, lane: str | None = None) -> T:
        await asyncio.sleep(0)
        await self.may_run.wait()
        return work()


class SetPace(AppendLatency):
    """As slow as the test says, however busy the machine is."""

    def observe(self, seconds: float, now: float) -> None:
        """Nothing follows from it."""


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
        self.pace = SetPace()
        self.partition = Partition(
            TopicPartition(TOPIC, 0),
            UUID(int=9),
            self.log,
            log_dir=str(directory),
            append_latency=self.pace,
            clock=self.clock,
            executor=self.threads,
            on_disk_failure=lambda _, error: self.failed.append(error),
            high_watermark=0,
        )
        self.coordinators = Coordinators[Command, Answer, tuple[str, int]](
            TallyKind(write_timeout_ms),
            clock=self.clock,
            executor=self.threads,
            on_disk_failure=lambda _, error: self.failed.append(error),
        )

    def lead(self, epoch: int = 1, *, alone: bool = True, min_isr: int = 1) -> None:
        replication = None
        if not alone:
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
        self.coordinators.follow(self.partition)

    def follow(self, epoch: int) -> None:
        self.partition.become_leaderless(epoch)
        self.coordinators.follow(self.partition)

    def replicate(self) -> None:
        """The other replica has all there is."""
        self.partition.follower_fetched(FOLLOWER, self.log.log_end_offset, 0)

    def submit(self, command: Command) -> DeferredResponse:
        host = self.coordinators.host(0)
        if host is None:
            return self.coordinators.refuse(command, ErrorCode.not_coordinator)
        return host.submit(command)

    def ask(self, command: Command) -> Answer:
        """The response that is complete at once."""
        deferred = self.submit(command)
        assert deferred.is_done
        answer: Answer = deferred.result
        return answer

    async def answer(self, command: Command) -> Answer:
        answer: Answer = await asyncio.wait_for(self.submit(command).wait(), 10)
        return answer

    @property
    def machine(self) -> Tally:
        host = self.coordinators.host(0)
        assert host is not None
        machine = host._machine
        assert isinstance(machine, Tally)
        return machine

    async def loaded(self) -> None:
        while (host := self.coordinators.host(0)) is None or not host.is_active:
            await asyncio.sleep(0.001)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))
