"""Compares TLS with Apache Kafka, and measures what authorization and client quotas cost small requests.

TLS: both brokers run side by side, and take turns under the same load with the same cipher. Authorization and quotas:
one Odradek broker works with and without them in turn, because two brokers with the same code differ by some per cent.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import loads
from bench.exchanged_code import WITH, ExchangingBroker, measure_pairs, relative_cost
from bench.loads import WARM_UP_ROUNDS, Work
from bench.page import PAGE, SECURITY_SECTION, replace_section
from bench.products import KAFKA, ODRADEK, PRODUCTS, data_directory, find_kafka, wide_console
from bench.report import number
from bench.results import describe_machine
from bench.tls_sides import TlsSide, tls_side
from bench.workloads.figures import Figures, Sample
from bench.workloads.report import markdown_table
from bench.workloads.rounds import order_of_round
from bench.workloads.sides import Meter
from odradek.client.address import parse_bootstrap
from odradek.client.cluster import Cluster
from odradek.client.quotas import DEFAULT, Quotas
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch
from tests.secured_node import ALLOW, CREATE_ACLS, LITERAL

PARTITIONS: Final = 12
VALUE_BYTES: Final = 1024
ROUNDS: Final = 3
PAIRS: Final = 100
"""Pairs of turns with and without authorization or quotas."""
REQUESTS: Final = 500
"""Requests in one turn."""
TOPIC: Final = "secured"
BYTE_RATE: Final = {"producer_byte_rate": 1e12}
"""Quotas that no client reaches."""
TIME: Final = {"request_percentage": 1e6}
APPLIED_SECONDS_MAX: Final = 30.0
_WRITE, _TOPIC = 4, 2
_NUMBERS: Final = count()


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    amount: int
    target: float
    """The least rate, divided by Kafka's."""
    run: Callable[[TlsSide, Path, int], Work]


def _produce(side: TlsSide, libs: Path, records: int) -> Work:
    topic = loads.create_topic(side.bootstrap, f"round-{next(_NUMBERS)}", partitions=PARTITIONS)
    rate = loads.performance_tool(
        libs, side.tls_bootstrap, topic, records, size=VALUE_BYTES, settings=side.client_properties
    )
    return Work(rate, records)


def _consume(side: TlsSide, libs: Path, records: int) -> Work:
    group = f"round-{next(_NUMBERS)}"
    settings = side.client_properties
    return Work(loads.consumer_tool(libs, side.tls_bootstrap, TOPIC, records, group=group, settings=settings), records)


def _shake_hands(side: TlsSide, libs: Path, connections: int) -> Work:
    return side.shake_hands(connections)


ROWS: Final = (
    Row("produce_tls", "kafka-producer-perf-test, 1 KiB, TLS", "records", 300_000, 1.2, _produce),
    Row("consume_tls", "kafka-consumer-perf-test, 1 KiB, TLS", "records", 500_000, 1.0, _consume),
    Row("handshakes", "TLS handshakes", "connections", 2_000, 1.0, _shake_hands),
)


@dataclass(frozen=True)
class Cost:
    title: str
    cost: float
    most: float


def main() -> int:
    options = _parse()
    console = wide_console()
    libs = find_kafka(console)
    if libs is None:
        return 2
    figures, ciphers = _measure_tls(libs, options, console)
    rows = [_line(figures, row) for row in ROWS]
    costs = [
        Cost("authorization", _authorization_cost(options.pairs), 0.03),
        Cost("client quotas: producer_byte_rate", _quota_cost(BYTE_RATE, options.pairs), 0.02),
        Cost(
            "client quotas: producer_byte_rate, request_percentage", _quota_cost(BYTE_RATE | TIME, options.pairs), 0.02
        ),
    ]
    for cells in [*rows, *map(_cost_line, costs)]:
        console.print(" | ".join(cells), markup=False)
    if options.docs:
        replace_section(PAGE, SECURITY_SECTION, _section(rows, costs, ciphers, options))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.security", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, to check that everything works")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"measured rounds (default: {ROUNDS})")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of turns (default: {PAIRS})")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/benchmarks.md")
    return parser.parse_args()


# ---- TLS


def _measure_tls(libs: Path, options: argparse.Namespace, console: Console) -> tuple[Figures, dict[str, str]]:
    figures = Figures()
    with ExitStack() as running:
        sides = {key: running.enter_context(tls_side(key, libs)) for key in PRODUCTS}
        for side in sides.values():
            loads.create_topic(side.bootstrap, TOPIC, partitions=PARTITIONS)
            loads.performance_tool(libs, side.bootstrap, TOPIC, ROWS[1].amount, size=VALUE_BYTES)
        for row in ROWS:
            amount = row.amount // (10 if options.quick else 1)
            for turn in range(WARM_UP_ROUNDS + options.rounds):
                for key in order_of_round(PRODUCTS, turn):
                    sample = _sample(row, sides[key], libs, amount)
                    if turn >= WARM_UP_ROUNDS:
                        figures.add(row.key, key, sample)
            console.print(f"{row.title}: done")
        return figures, {key: side.cipher() for key, side in sides.items()}


def _sample(row: Row, side: TlsSide, libs: Path, amount: int) -> Sample:
    meter = Meter(side)
    work = row.run(side, libs, amount)
    usage = meter.read()
    return Sample(work.rate, 1e6 * usage.cpu_s / work.units, usage.peak_mb, usage.resident_mb)


def _line(figures: Figures, row: Row) -> tuple[str, ...]:
    ratio = figures.rate_ratio(row.key, ODRADEK)
    return (
        row.title,
        *(f"{number(figures.rate(row.key, key))} {row.unit}/s" for key in (KAFKA, ODRADEK)),
        f"{ratio:.2f} ×",
        f"≥ {row.target:g} ×",
        *(f"{number(figures.cpu_us(row.key, key))} µs" for key in (KAFKA, ODRADEK)),
        f"{figures.cpu_ratio(row.key, ODRADEK):.2f} ×",
        "met" if ratio >= row.target else "**missed**",
    )


# ---- Authorization and quotas


class _Broker(ExchangingBroker):
    def start_command(self) -> list[str]:
        broker = "bench.securing_broker"
        return [sys.executable, "-m", broker, str(self.command_socket), "start", str(self.config_file)]


@contextmanager
def _broker(properties: dict[str, str]) -> Iterator[_Broker]:
    with data_directory(ODRADEK) as directory:
        broker = _Broker(directory)
        broker.properties |= properties
        try:
            broker.start()
            broker.connect()
            yield broker
        finally:
            broker.kill()


def _turn(broker: _Broker, frame: bytes) -> float:
    """CPU time in nanoseconds of Produce requests of one record, which name a topic that the client may write."""
    before = broker.run_nanoseconds
    loads.send_pipelined(broker.bootstrap, [frame], REQUESTS)
    return broker.run_nanoseconds - before


def _frame() -> bytes:
    return loads.produce_request(TOPIC, batch(TestRecord(b"x" * 100), timestamp=int(time.time() * 1000)))


def _authorization_cost(pairs: int) -> float:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The topic has an ACL, which decides about the measured requests.
        "allow.everyone.if.no.acl.found": "true",
    }
    with _broker(properties) as broker:
        loads.create_topic(broker.bootstrap, TOPIC)
        _allow_writes(broker)
        frame = _frame()

        def turn(variant: bytes) -> float:
            broker.switch_to(variant)
            return _turn(broker, frame)

        return relative_cost(measure_pairs(turn, pairs))


def _allow_writes(broker: _Broker) -> None:
    creation = {
        "resource_type": _TOPIC,
        "resource_name": TOPIC,
        "resource_pattern_type": LITERAL,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": _WRITE,
        "permission_type": ALLOW,
    }
    with RawConnection(broker.port) as connection:
        response = connection.request(CREATE_ACLS, 3, {"creations": [creation]})
    assert response.results[0].error_code == 0, response


def _quota_cost(limits: Mapping[str, float], pairs: int) -> float:
    with _broker({}) as broker, Cluster(parse_bootstrap(broker.bootstrap)) as cluster:
        loads.create_topic(broker.bootstrap, TOPIC)
        frame, quotas = _frame(), Quotas(cluster)

        def turn(variant: bytes) -> float:
            quotas.change({"user": DEFAULT}, limits if variant == WITH else dict.fromkeys(limits))
            deadline = time.monotonic() + APPLIED_SECONDS_MAX
            while bool(quotas.list({"user": DEFAULT})) != (variant == WITH):
                assert time.monotonic() < deadline, "the quotas were not applied"
            return _turn(broker, frame)

        return relative_cost(measure_pairs(turn, pairs))


def _cost_line(cost: Cost) -> tuple[str, ...]:
    return (
        cost.title,
        f"{cost.cost:+.1%}",
        f"≤ {cost.most:.0%}",
        "met" if cost.cost <= cost.most else "**missed**",
    )


# ---- docs/benchmarks.md

_HEADS: Final = ("workload", "Kafka", "Odradek", "rate", "target", "Kafka", "Odradek", "CPU", "")
_COST_HEADS: Final = ("", "CPU time per request", "target", "")


def _section(
    rows: list[tuple[str, ...]], costs: list[Cost], ciphers: dict[str, str], options: argparse.Namespace
) -> str:
    return _SECTION.format(
        tls=markdown_table(_HEADS, rows),
        costs=markdown_table(_COST_HEADS, [_cost_line(one) for one in costs]),
        ciphers=" and ".join(sorted(set(ciphers.values()))),
        rounds=options.rounds,
        warm_ups=WARM_UP_ROUNDS,
        pairs=options.pairs,
        requests=REQUESTS,
        **describe_machine(),
    )


_SECTION = """
Rate, and CPU time of the broker per record or connection, over TLS with the clients' default settings ({ciphers});
{cores} cores, {memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1.
Commit {commit}. Medians of {rounds} rounds after {warm_ups} warm-up rounds. `make bench-security ARGS=--docs` writes
this section.

{tls}

- Both brokers run side by side; in each round, both run the same load in turn. Clients and brokers share the cores.
- Handshakes are full ones with a certificate of an EC key (P-256), each followed by an ApiVersions request.

CPU time of an Odradek broker per Produce request of one record, five in flight:

{costs}

- One broker works with and without authorization, or with and without quotas, in {pairs} pairs of turns with {requests}
  requests each. The value is the median over the pairs. All threads of the broker count.
"""


if __name__ == "__main__":
    sys.exit(main())
