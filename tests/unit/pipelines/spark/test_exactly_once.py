"""The sink's protocol under a seeded scheduler: drivers die or are replaced, tasks retry, responses get
lost. Every row must become visible once, and nothing may stay open.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from odradek.pipelines.spark.exactly_once import driver, task
from odradek.pipelines.spark.exactly_once.driver import Generation, Report
from odradek.pipelines.spark.exactly_once.requests import (
    BatchLost,
    EndedDifferently,
    EndTransaction,
    Fenced,
    FindOpen,
    InitProducer,
    ListOpen,
    NextTicket,
    NotDecided,
    OutcomeUnknown,
    ReadState,
    Request,
    Superseded,
    TakeTicket,
    WriteRows,
    WriteState,
)
from odradek.pipelines.spark.exactly_once.states import Prepared, Producer, State, from_json, to_json
from odradek.pipelines.spark.exactly_once.task import write_batch

SINK = "totals"
BATCHES = 5
PARTITIONS = 3
STEPS_MAX = 20_000

Row = tuple[int, int]


@dataclass
class Transaction:
    """What a coordinator and the partitions know of an id, with transaction.version 2."""

    producer: Producer
    last_epoch: int = -1
    is_open: bool = False
    was_committed: bool | None = None
    rows: list[Row] = field(default_factory=list)


@dataclass
class Brokers:
    random: Random
    response_loss_rate: float
    transactions: dict[str, Transaction] = field(default_factory=dict)
    state: bytes | None = None
    visible: list[Row] = field(default_factory=list)
    late: list[tuple[Request, list[Row]]] = field(default_factory=list)
    producer_ids: list[int] = field(default_factory=list)
    tickets: int = 17

    def handle(self, request: Request, rows: list[Row]) -> Any:
        """Raises OutcomeUnknown at random; the request then takes effect at once, later or never."""
        if self.late and self.random.random() < 0.1:
            self._quietly(*self.late.pop(self.random.randrange(len(self.late))))
        if self.random.random() < self.response_loss_rate:
            what = self.random.randrange(3)
            if what == 0:
                self._quietly(request, rows)
            elif what == 1:
                self.late.append((request, rows))
            raise OutcomeUnknown
        return self._do(request, rows)

    def settle(self) -> None:
        """What was on its way is done, and nothing gets lost any more."""
        self.response_loss_rate = 0.0
        while self.late:
            self._quietly(*self.late.pop())

    def _quietly(self, request: Request, rows: list[Row]) -> None:
        with suppress(Fenced, EndedDifferently):
            self._do(request, rows)

    def _do(self, request: Request, rows: list[Row]) -> Any:
        match request:
            case InitProducer(name):
                return self._init(name)
            case ReadState():
                return None if self.state is None else from_json(self.state)
            case WriteState(sink, producer, state):
                own = self.transactions[sink]
                if own.producer != producer:
                    raise Fenced
                self.state = to_json(state)
                self._complete(own, True)
                return own.producer
            case NextTicket():
                return self.tickets
            case TakeTicket():
                self.tickets += 1
                return self.tickets - 1
            case ListOpen(prefix):
                found = [
                    Prepared(name, one.producer)
                    for name, one in self.transactions.items()
                    if one.is_open and name.startswith(prefix)
                ]
                return self.random.sample(found, len(found))
            case FindOpen(names):
                return [Prepared(name, self.transactions[name].producer) for name in names if self._is_open(name)]
            case EndTransaction(name, producer, committed):
                return self._end(self.transactions[name], producer, committed)
            case WriteRows(name, producer):
                one = self.transactions[name]
                if one.producer != producer:
                    raise Fenced
                one.is_open = True
                one.rows += rows
                return None

    def _is_open(self, name: str) -> bool:
        return self.transactions[name].is_open

    def _init(self, name: str) -> Producer:
        one = self.transactions.get(name)
        if one is None:
            # Brokers get them by the thousand: who comes later need not have a greater one.
            self.producer_ids.append(self.random.randrange(10**9))
            one = self.transactions[name] = Transaction(Producer(self.producer_ids[-1], -1))
        if one.is_open:
            # Whatever epoch the requesting producer has.
            self._complete(one, False)
        one.last_epoch = -1
        one.producer = one.producer._replace(epoch=one.producer.epoch + 1)
        return one.producer

    def _end(self, one: Transaction, producer: Producer, committed: bool) -> Producer:
        if producer == one.producer and one.is_open:
            self._complete(one, committed)
            return one.producer
        if producer == one.producer or producer == one.producer._replace(epoch=one.last_epoch):
            if one.was_committed is not committed or producer == one.producer:
                raise EndedDifferently
            return one.producer
        raise Fenced

    def _complete(self, one: Transaction, committed: bool) -> None:
        if committed:
            self.visible += one.rows
        one.rows = []
        one.is_open = False
        one.was_committed = committed
        one.last_epoch = one.producer.epoch
        one.producer = one.producer._replace(epoch=one.producer.epoch + 1)

    def time_out(self) -> None:
        """What a coordinator without two-phase commit does to a transaction that was open for too long."""
        found = [name for name, one in self.transactions.items() if one.is_open]
        if found:
            self._complete(self.transactions[self.random.choice(found)], False)


class Process:
    """A generator of requests. Between two of them anything may happen, for as long as it likes."""

    def __init__(self, brokers: Brokers, steps: Any, rows: list[Row] = []) -> None:  # noqa: B006
        self._brokers = brokers
        self._steps = steps
        self._rows = rows
        self._pending: Request | None = None
        self.result: Any = None
        self.failure: BaseException | None = None
        self.is_over = False
        self.frozen_until = 0
        self._resume(lambda: next(steps))

    def step(self) -> None:
        if self._pending is None:
            self._resume(lambda: next(self._steps))
            return
        try:
            response = self._brokers.handle(self._pending, self._rows)
        except (Fenced, EndedDifferently, OutcomeUnknown) as error:
            failure = error
            self._resume(lambda: self._steps.throw(failure))
        else:
            self._resume(lambda: self._steps.send(response))

    def _resume(self, advance: Callable[[], Any]) -> None:
        try:
            self._pending = advance()
        except StopIteration as end:
            self.is_over, self.result = True, end.value
        except (Fenced, EndedDifferently, OutcomeUnknown, Superseded, NotDecided, BatchLost) as error:
            self.is_over, self.failure = True, error


class Spark:
    """One query: drivers one after the other, or beside each other, tasks of all of them, and a checkpoint."""

    def __init__(self, seed: int, *, faults: bool = True, time_outs: bool = False) -> None:
        self.random = Random(seed)
        self.brokers = Brokers(self.random, 0.08 if faults else 0.0)
        self.done: set[int] = set()
        self.processes: list[Process] = []
        self.lost: BatchLost | None = None
        self._faults = faults
        self._time_outs = time_outs

    def run(self) -> None:
        now: Process | None = None
        for moment in range(STEPS_MAX):
            if now is None or now.is_over or (self._faults and self.random.random() < 0.01):
                if now is not None and isinstance(now.failure, BatchLost):
                    self.lost = now.failure
                    return
                if len(self.done) == BATCHES:
                    break
                if now is not None:
                    self._replace(now, moment)
                now = self.start(self.query())
            if self._time_outs and self.random.random() < 0.01:
                self.brokers.time_out()
            if self._faults and self.random.random() < 0.02:
                self.random.choice(self.processes).frozen_until = moment + self.random.randrange(300)
            runnable = [one for one in self.processes if not one.is_over and one.frozen_until <= moment]
            if runnable:
                self.random.choice(runnable).step()
        self.brokers.settle()
        for _ in range(STEPS_MAX):
            unfinished = [one for one in self.processes if not one.is_over]
            if not unfinished:
                return
            self.random.choice(unfinished).step()
        raise AssertionError("a process never ends")

    def _replace(self, old: Process, moment: int) -> None:
        """Kill the process, or freeze it: then it resumes later and does not know that it was replaced."""
        if self.random.random() < 0.4:
            old.is_over = True
        else:
            old.frozen_until = moment + self.random.randrange(300)

    def start(self, steps: Any, rows: list[Row] | None = None) -> Process:
        process = Process(self.brokers, steps, rows or [])
        self.processes.append(process)
        return process

    def query(self) -> Iterator[Any]:
        """A driver: what Spark does around the sink."""
        while True:
            batch = len(self.done)
            if batch == BATCHES:
                return
            generation = yield from driver.begin(SINK)
            reports = yield from self._tasks(generation, batch)
            try:
                yield from driver.commit(generation, batch, reports)
            except (Fenced, Superseded, NotDecided, OutcomeUnknown):
                yield from driver.abort(generation, batch, reports)
                return
            self.done.add(batch)

    def _tasks(self, generation: Generation, batch: int) -> Iterator[Any]:
        attempts: list[list[Process]] = [[] for _ in range(PARTITIONS)]
        while True:
            reports: list[Report] = []
            for partition, tried in enumerate(attempts):
                succeeded = [one for one in tried if one.is_over and one.failure is None]
                if succeeded:
                    reports.append(succeeded[0].result)
                elif all(one.is_over for one in tried) or (self._faults and self.random.random() < 0.05):
                    rows = [(batch, partition * 10 + number) for number in range(partition)]
                    attempt = sum(map(len, attempts))
                    steps = write_batch(generation, batch, "query-1", attempt, has_rows=bool(rows))
                    tried.append(self.start(steps, rows))
            if len(reports) == PARTITIONS:
                return reports
            # Let time pass with a request that changes nothing.
            try:
                yield ReadState(SINK)
            except OutcomeUnknown:
                continue


EXPECTED = sorted((batch, p * 10 + n) for batch in range(BATCHES) for p in range(PARTITIONS) for n in range(p))


def sweep(spark: Spark) -> None:
    """What the next batch of the query would do first."""
    process = Process(spark.brokers, driver.begin(SINK))
    while not process.is_over:
        process.step()
    assert process.failure is None


def check(seed: int) -> Spark:
    spark = Spark(seed)
    spark.run()
    assert spark.lost is None, f"seed {seed}: {spark.lost}"
    assert len(spark.done) == BATCHES, f"seed {seed} makes no progress"
    assert sorted(spark.brokers.visible) == EXPECTED, f"seed {seed}"
    sweep(spark)
    assert not any(one.is_open for one in spark.brokers.transactions.values()), f"seed {seed}"
    return spark


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_sink_is_exactly_once_with_random_failures(first: int) -> None:
    replaced = sum(
        sum(process.failure is not None for process in check(seed).processes) > 0 for seed in range(first, first + 50)
    )
    assert replaced > 30, "the faults are not what they should be"


def test_transactional_ids_are_reused() -> None:
    spark = Spark(1, faults=False)
    spark.run()
    assert sorted(spark.brokers.visible) == EXPECTED
    assert len(spark.brokers.transactions) == 1 + PARTITIONS - 1, "one for the driver, one for each task with rows"


def test_a_timed_out_batch_is_reported_and_never_written_twice() -> None:
    lost = 0
    for seed in range(150):
        spark = Spark(seed, time_outs=True)
        spark.run()
        visible = spark.brokers.visible
        assert len(set(visible)) == len(visible), f"seed {seed}: twice"
        if spark.lost is None:
            continue
        lost += 1
        named = len(spark.done)
        assert f"Batch {named} " in str(spark.lost)
        assert [row for row in sorted(visible) if row[0] < named] == [row for row in EXPECTED if row[0] < named]
    assert lost > 3


def test_states_round_trip() -> None:
    spark = Spark(3)
    seen: list[State] = []
    original = spark.brokers._do

    def watched(request: Request, rows: list[Row]) -> Any:
        if isinstance(request, WriteState):
            seen.append(request.state)
            assert from_json(to_json(request.state)) == request.state
        return original(request, rows)

    spark.brokers._do = watched  # type: ignore[method-assign]
    spark.run()
    assert {type(state).__name__ for state in seen} == {"Begun", "Decided", "Finished"}
    with pytest.raises(ValueError, match="which this release cannot read"):
        from_json(b'{"state": "postponed"}')


def test_a_sink_of_another_query_is_rejected() -> None:
    spark = Spark(5, faults=False)
    spark.run()
    begun = Process(spark.brokers, driver.begin(SINK))
    while not begun.is_over:
        begun.step()
    other = Process(spark.brokers, write_batch(begun.result, 0, "query-2", 0, has_rows=True))
    other.step()
    assert isinstance(other.failure, Superseded)
    assert "belongs to another query" in str(other.failure)


# ---- bugs that must be found, or the scheduler finds nothing


def find(seeds: int = 400) -> bool:
    for seed in range(seeds):
        try:
            check(seed)
        except AssertionError:
            return True
    return False


@pytest.mark.tier("proof")
def test_planted_bug_unchecked_finished_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either look would do: a task's saves the work, the driver's is the one that counts."""
    monkeypatch.setattr(task, "last_finished_batch", lambda state: -1)
    original = driver.last_finished_batch
    monkeypatch.setattr(driver, "last_finished_batch", lambda state: original(state) - isinstance(state, driver.Begun))
    assert find()


def test_planted_bug_abort_without_reading_the_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(generation: Generation, batch: int, reports: list[Report]) -> Iterator[Any]:
        for report in reports:
            if report.prepared is not None:
                yield from driver._abort_one(report.prepared)

    monkeypatch.setattr(driver, "abort", hasty)
    assert find()


def test_planted_bug_reused_pool_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = driver.begin

    def generous(sink: str) -> Iterator[Any]:
        before = yield from driver.retry_until_known(ReadState(sink))
        generation = yield from original(sink)
        pool = before.pool if isinstance(before, driver.Begun) else generation.pool
        return replace(generation, pool=pool)

    monkeypatch.setattr(driver, "begin", generous)
    assert find()


def test_planted_bug_aborting_newer_transactions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(sink: str, decided: Any) -> Iterator[Any]:
        for one in (yield from driver.retry_until_known(ListOpen(driver.task_id_prefix(sink)))):
            if one not in decided.winners:
                yield from driver._abort_one(one)

    def trusting(decided: Any) -> Iterator[Any]:
        yield ReadState(SINK)

    monkeypatch.setattr(driver, "_abort_others", careless)
    # The last look before a decision leaves so little time that few seeds would meet it.
    monkeypatch.setattr(driver, "_check_open", trusting)
    assert find()


def test_planted_bug_reused_task_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "new_task_id", lambda sink, number, *others: f"{sink}.task.{number}.{others[0] % 3}")
    assert find()


def test_planted_bug_retried_task_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def insistent(generation: Generation, attempt: int) -> Iterator[Any]:
        name = task.new_task_id(generation.sink, generation.number, attempt, 0)
        return Prepared(name, (yield from task.retry_until_known(InitProducer(name))))

    monkeypatch.setattr(task, "_take_id", insistent)
    assert find()


def test_planted_bug_shared_pool_entry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the partition chose the entry: a stage that runs again repeats the attempt numbers of its first run."""

    def by_partition(generation: Generation) -> Iterator[Any]:
        yield TakeTicket(generation.sink)
        return generation.pool[-1] if generation.pool else None

    monkeypatch.setattr(task, "_take_pooled_id", by_partition)
    assert find()
