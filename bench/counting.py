"""`python -m bench.counting`: what counting costs a broker that is written to, and what hot keys cost it.

The same broker is measured as it is, without its counting on the way of producers, and with hot keys, in turn.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from rich.table import Table

from bench import loads
from bench.page import COUNTING_SECTION, PAGE, replace_section
from bench.products import ODRADEK, data_directory, wide_console
from bench.results import RESULTS, describe_machine
from tests.components import ROOT
from tests.odradek_process import OdradekProcess

ROUNDS: Final = 12
BATCHED_RECORDS, SINGLE_RECORDS = 6_000_000, 100_000
QUICK_SHARE: Final = 0.02
WITHOUT, COUNTED, HOT_KEYS = "without counting", "as it is", "with hot keys"
HOT_KEYS_OFF: Final = {"hot.keys.enable": "false"}
COUNTING_MAX, HOT_KEYS_MAX = 0.02, 0.03
KEYS: Final = 1000

# All that a Produce request passes on its way and that only counts.
COUNTING: Final = (
    ("partition/partition.py", "        traffic.appends += 1\n", ""),
    ("partition/partition.py", "        traffic.bytes_in += len(data)\n", ""),
    (
        "net/connection.py",
        """            requests = context.meter.requests
            requests.left = left = requests.left - 1
            if not left:
                requests.begin_again()
                started = self._monotonic() if has_waited else arrived
""",
        "",
    ),
)


@dataclass(frozen=True)
class Form:
    """In which the broker is measured."""

    name: str
    package: Path
    properties: Mapping[str, str]


class _Broker(OdradekProcess):
    def __init__(self, form: Form, directory: Path) -> None:
        super().__init__(directory, properties=form.properties)
        self._package = form.package

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self._package)}


def main() -> int:
    options = _parse()
    console = wide_console()
    share = QUICK_SHARE if options.quick else 1.0
    loads_of: dict[str, Callable[[str], int]] = {
        "batches of many records": lambda bootstrap: _produce(bootstrap, int(BATCHED_RECORDS * share), linger_ms=5),
        "one record a request": lambda bootstrap: _produce(bootstrap, int(SINGLE_RECORDS * share), linger_ms=0),
    }
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-counting-") as directory:
        forms = _forms(Path(directory))
        for number in range(options.rounds):
            # Each comes first, second and third in turn.
            for form in (*forms[number % 3 :], *forms[: number % 3]):
                for load, produce in loads_of.items():
                    found.setdefault((load, form.name), []).append(_microseconds(form, produce))
                console.print(f"round {number + 1} of {options.rounds}: {form.name} done")
    rows = [_Row.of(load, found) for load in loads_of]
    RESULTS.mkdir(exist_ok=True)
    told = [{"load": load, "form": form, "microseconds": values} for (load, form), values in found.items()]
    (RESULTS / "counting.json").write_text(json.dumps(told, indent=2) + "\n")
    console.print(_table(rows))
    if options.docs:
        replace_section(PAGE, COUNTING_SECTION, _section(rows, options.rounds))
    return 0 if all(row.is_met for row in rows) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.counting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} unless said")
    parser.add_argument("--quick", action="store_true", help="small loads, whose numbers mean little")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    return parser.parse_args()


def _forms(directory: Path) -> list[Form]:
    """All from copies of the package, so that they differ in nothing else."""
    counted, without = directory / "counted", directory / "without"
    for package in (counted, without):
        shutil.copytree(ROOT / "src" / "odradek", package / "odradek", ignore=shutil.ignore_patterns("__pycache__"))
    for name, counting, instead in COUNTING:
        file = without / "odradek" / name
        text = file.read_text()
        assert text.count(counting) == 1, f"{name} does not count as this benchmark expects"
        file.write_text(text.replace(counting, instead))
    return [Form(WITHOUT, without, HOT_KEYS_OFF), Form(COUNTED, counted, HOT_KEYS_OFF), Form(HOT_KEYS, counted, {})]


def _microseconds(form: Form, produce: Callable[[str], int]) -> float:
    """Of the broker's processor time for each record, on a new data directory."""
    with data_directory(ODRADEK) as directory:
        broker = _Broker(form, directory)
        try:
            broker.start()
            loads.create_topic(broker.bootstrap, "counted")
            # What is done once, when the first request comes, is not measured.
            _produce(broker.bootstrap, 1000, linger_ms=5)
            before = broker.cpu_seconds
            records = produce(broker.bootstrap)
            return (broker.cpu_seconds - before) / records * 1e6
        finally:
            broker.kill()


def _produce(bootstrap: str, records: int, *, linger_ms: int) -> int:
    """Records of 100 B, without waiting as many as a request takes, else one in each."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": linger_ms}
    settings |= {"batch.num.messages": 1} if linger_ms == 0 else {"batch.size": 1_000_000}
    settings |= {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20}
    producer = Producer(settings)
    value = bytes(100)
    for number in range(records):
        while True:
            try:
                producer.produce("counted", value, key=b"%d" % (number % KEYS))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(loads.TIMEOUT_S) == 0
    return records


@dataclass(frozen=True)
class _Row:
    load: str
    microseconds: float
    """For a record, by the broker as it is."""
    counting: float
    hot_keys: float

    @classmethod
    def of(cls, load: str, found: Mapping[tuple[str, str], list[float]]) -> "_Row":
        """By the lowest of the rounds: what disturbs a broker only ever adds to its time, and adds more than is asked
        for here."""
        without, counted, hot_keys = (min(found[load, form]) for form in (WITHOUT, COUNTED, HOT_KEYS))
        return cls(load, counted, counted / without - 1, hot_keys / counted - 1)

    @property
    def is_met(self) -> bool:
        return self.counting <= COUNTING_MAX and self.hot_keys <= HOT_KEYS_MAX

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.load,
            f"{self.microseconds:.2f} µs",
            f"{self.counting:+.1%} (≤ {COUNTING_MAX:.0%})",
            f"{self.hot_keys:+.1%} (≤ {HOT_KEYS_MAX:.0%})",
            "met" if self.is_met else "**missed**",
        )


TITLES: Final = ("records of 100 B in", "processor time of a record", "counting", "hot keys", "")


def _table(rows: list[_Row]) -> Table:
    table = Table(title="What counting costs")
    for title in TITLES:
        table.add_column(title)
    for row in rows:
        table.add_row(*row.cells)
    return table


def _section(rows: list[_Row], rounds: int) -> str:
    lines = [TITLES, ("---",) * len(TITLES), *(row.cells for row in rows)]
    return _SECTION.format(
        rounds=rounds, rows="\n".join(f"| {' | '.join(line)} |" for line in lines), **describe_machine()
    )


_SECTION = """
One broker that is written to by confluent-kafka, acks=all; {cores} cores, {memory}, Python {python}. Commit {commit}.
The lowest of {rounds} rounds. This section is written by `make bench-counting ARGS=--docs`.

{rows}

- Measured is the broker's processor time for each record, since its one core is what bounds its throughput: as it is,
  with the counting on the way of a Produce request taken out of its code, and with `hot.keys.enable=true`, in turn.
- The lowest, since what disturbs a broker only ever adds to its time: single rounds differ by more than a tenth.
- Where every record comes in a request of its own, counting weighs most: that is the worst there is.
"""


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
