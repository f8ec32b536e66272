"""Measures what `record.validation=full` costs a broker under a produce load.

One broker changes its config at run time, and both values take turns under the same load: two brokers with the same
code differ by some per cent. The first turns are not measured: the broker then loads the compiled walk.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from bench import loads
from bench.measured_broker import MeasuredBroker
from bench.page import PAGE, RECORD_VALIDATION_SECTION, replace_section
from bench.products import ODRADEK, data_directory, wide_console
from bench.results import describe_machine
from odradek.broker.record_walks import LOAD_AFTER_RECORDS
from tests.apis import Api
from tests.raw_wire import RawConnection
from tests.record_batches import LZ4, NONE, TestRecord, batch, encode_record

PAIRS: Final = 6
"""Pairs of turns with both values."""
NAME, HEADER, FULL = "record.validation", "header", "full"
BROKER, SET = 4, 0
TOPIC: Final = "validated"
CHANGED_SECONDS_MAX: Final = 30.0


class Load(NamedTuple):
    name: str
    codec: int
    records_per_request: int
    requests: int
    """Requests in one turn."""

    def frame(self) -> bytes:
        chance = random.Random(7)
        # Compressed to about half.
        records = [TestRecord(b"%0100x" % chance.getrandbits(400), b"key") for _ in range(self.records_per_request)]
        return loads.produce_request(TOPIC, batch(*records, codec=self.codec, timestamp=int(time.time() * 1000)))


LOADS: Final = (
    Load("one record per request", NONE, 1, 2000),
    Load("batches of 120 records", NONE, 120, 1500),
    Load("batches of 8,000 records", NONE, 8000, 60),
    Load("batches of 8,000 records, lz4", LZ4, 8000, 60),
)


class Costs(NamedTuple):
    """CPU time per record in microseconds, by turn."""

    header: list[float]
    full: list[float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.record_validation", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"number of pairs of turns (default: {PAIRS})")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    options = parser.parse_args()
    console = wide_console()
    rows: list[tuple[str, ...]] = []
    with data_directory(ODRADEK) as directory:
        broker = MeasuredBroker(directory)
        try:
            broker.start()
            loads.create_topic(broker.bootstrap, TOPIC)
            _warm_up(broker)
            for load in LOADS:
                rows.append(_row(load, _measure(broker, load, options.pairs)))
                console.print(*rows[-1], sep=" | ")
        finally:
            broker.kill()
    if options.docs:
        replace_section(PAGE, RECORD_VALIDATION_SECTION, _section(rows, options.pairs))
    return 0


def _warm_up(broker: MeasuredBroker) -> None:
    """Until small batches are walked by compiled code: then a turn takes a fraction of its time."""
    _change(broker, FULL)
    load = LOADS[1]
    frames = [load.frame()]
    for _ in range(3):
        loads.send_pipelined(broker.bootstrap, frames, LOAD_AFTER_RECORDS // load.records_per_request // 2)
    first = _turn(broker, load, frames)
    deadline = time.monotonic() + CHANGED_SECONDS_MAX
    while _turn(broker, load, frames) > first / 2 and time.monotonic() < deadline:
        time.sleep(0.5)


def _measure(broker: MeasuredBroker, load: Load, pairs: int) -> Costs:
    costs = Costs([], [])
    frames = [load.frame()]
    for _ in range(pairs):
        for value, spent in ((HEADER, costs.header), (FULL, costs.full)):
            _change(broker, value)
            spent.append(_turn(broker, load, frames))
    return costs


def _turn(broker: MeasuredBroker, load: Load, frames: Sequence[bytes]) -> float:
    before = broker.run_nanoseconds
    loads.send_pipelined(broker.bootstrap, frames, load.requests)
    return (broker.run_nanoseconds - before) / 1000 / (load.requests * load.records_per_request)


def _change(broker: MeasuredBroker, value: str) -> None:
    """Returns when the broker has applied the change."""
    configs = [{"name": NAME, "config_operation": SET, "value": value}]
    resource = {"resource_type": BROKER, "resource_name": "", "configs": configs}
    deadline = time.monotonic() + CHANGED_SECONDS_MAX
    with RawConnection(broker.port) as connection:
        connection.request(Api.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
        while _is_full(connection) != (value == FULL):
            assert time.monotonic() < deadline, f"{NAME} did not become {value}"


def _is_full(connection: RawConnection) -> bool:
    """Whether the broker rejects a batch of one record whose last byte is missing."""
    record = TestRecord(b"value")
    data = batch(record, body=encode_record(record, 0)[:-1])
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": data}]}
    response = connection.request(Api.PRODUCE, 9, {"acks": -1, "timeout": 30_000, "topic_data": [topic]})
    return response.responses[0].partition_responses[0].error_code is not ErrorCode.none


def _row(load: Load, costs: Costs) -> tuple[str, ...]:
    header, full = map(statistics.median, costs)
    more = statistics.median(full - header for header, full in zip(*costs, strict=True))
    return load.name, f"{header:.3g} µs", f"{full:.3g} µs", f"{more:+.2g} µs", f"{more / header:+.0%}"


TITLES: Final = ("records of 100 B in", "header", "full", "more per record", "")


def _section(rows: Sequence[tuple[str, ...]], pairs: int) -> str:
    lines = [TITLES, ("---", *("---:",) * (len(TITLES) - 1)), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return _SECTION.format(pairs=pairs, rows=table, **describe_machine())


_SECTION = """
CPU time of a broker per record, with both values of `record.validation`, on one connection with five requests in
flight, acks=all; {cores} cores, {memory}, Python {python} with numba. Commit {commit}.
`make bench-validation ARGS=--docs` writes this section.

{rows}

- One broker changes the config at run time, {pairs} times, and runs the load with both values. The values are medians,
  and the difference is the median over adjacent turns. All threads of the broker count.
- With `full`, every record is read. Batches of more than 16 KB and compressed batches are read in a thread, after they
  were decompressed.
- Small batches are interpreted until 500,000 records were read, at 2.6 µs per record; then the broker loads numba in a
  thread, which takes about 135 MB of memory. Without numba, all records are interpreted.
"""


if __name__ == "__main__":
    sys.exit(main())
