"""Runs the shop example with `odradek` commands, from an empty directory to an audited table: `make pipeline`.

Exit codes: 0 exact, 1 orders lost or duplicated, 2 cannot run, 130 interrupted.
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.orders.generate import Order, ProductMinute, Totals, generate_orders, totals_by_minute
from examples.runtime.broker import local_broker
from examples.runtime.command import exit_code_of
from examples.runtime.errors import PipelineError
from examples.runtime.java import find_java
from examples.shop import totals as shop
from examples.shop.steps import Commands

DEFAULT_OUTPUT = Path("pipeline-results")
TABLE = "orders"
CHART = "shop.png"
EXIT_INEXACT = 1
# Records that cannot be decoded, as in any real topic.
UNDECODABLE = (b"{", b'{"order_id": "seven"}', b"\xff")


def main(
    orders: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of orders to produce.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same orders.")] = 7,
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Number of brokers to start.")] = 3,
    output: Annotated[Path, typer.Option(help="New directory for the table, the chart and the logs.")] = DEFAULT_OUTPUT,
) -> None:
    """Start a cluster, produce orders, write a table and totals, and audit them, with the commands that users have."""
    console = Console()
    exit_code = exit_code_of(
        lambda: _run(list(generate_orders(orders, seed)), brokers, output.absolute(), console),
        console,
        interrupted="interrupted; the cluster and Spark are stopped",
    )
    sys.exit(exit_code)


def _run(orders: Sequence[Order], brokers: int, output: Path, console: Console) -> int:
    find_java()
    if output.exists() and any(output.iterdir()):
        raise PipelineError(f"{output} is not empty: move it away, or choose another --output")
    output.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="odradek-shop-")))
        console.print(f"$ odradek up --brokers {brokers}", style="bold", highlight=False)
        cluster = cleanup.enter_context(local_broker(directory, brokers=brokers))
        console.print(f"{brokers} brokers, ready after {time.monotonic() - began:.1f} s")
        # One bootstrap server is enough.
        commands = Commands(cluster.bootstrap.partition(",")[0], output, console)
        _create_topics(commands, brokers)
        _produce(cluster.bootstrap, orders, console)
        letters = ("--dead-letters", shop.BAD_ORDERS)
        commands.run("job", "ingest", shop.ORDERS, TABLE, "--schema", shop.COLUMNS, *letters)
        (output / shop.FILE).write_text(shop.pipeline_text(cluster.bootstrap))
        commands.run_file("pipeline", "run", shop.FILE)
        commands.run("job", "audit", shop.ORDERS, TABLE, *letters)
        found = shop.read_totals(cluster.bootstrap)
    return _report(orders, found, output, time.monotonic() - began, console)


def _create_topics(commands: Commands, brokers: int) -> None:
    replicas = str(min(brokers, 3))
    partitions = {shop.ORDERS: shop.ORDERS_PARTITIONS, shop.TOTALS: shop.TOTALS_PARTITIONS}
    for name in (shop.ORDERS, shop.BAD_ORDERS, shop.TOTALS, shop.BAD_TOTALS):
        count = str(partitions.get(name, 1))
        commands.run("topic", "create", name, "--partitions", count, "--replication-factor", replicas)


def _produce(bootstrap: str, orders: Sequence[Order], console: Console) -> None:
    from confluent_kafka import Producer

    console.print(f"\n{len(orders):,} orders produced, and {len(UNDECODABLE)} records that cannot be decoded")
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 2})
    for order in orders:
        producer.poll(0)
        while len(producer) > 50_000:
            producer.poll(0.1)
        producer.produce(shop.ORDERS, order.to_json(), order.key)
    for value in UNDECODABLE:
        producer.produce(shop.ORDERS, value)
    if left := producer.flush(120):
        raise PipelineError(f"{left} orders were not acknowledged within two minutes")


def _report(
    orders: Sequence[Order], found: dict[ProductMinute, Totals], output: Path, seconds: float, console: Console
) -> int:
    from deltalake import DeltaTable

    from examples.shop.plot import save_plot

    rows = DeltaTable(str(output / TABLE)).count()
    counts = {
        "produced": len(orders) + len(UNDECODABLE),
        "in the table": rows,
        "in the totals": sum(one.orders for one in found.values()),
    }
    save_plot(output / CHART, counts, found)
    console.print(f"\ntable    {output / TABLE}", highlight=False, soft_wrap=True)
    console.print(f"chart    {output / CHART}", highlight=False, soft_wrap=True)
    if rows != len(orders) or found != totals_by_minute(orders):
        console.print(f"{TABLE} or the totals of {shop.TOTALS} differ from the produced orders", style="red")
        return EXIT_INEXACT
    console.print(f"exact: every order once, in the table and in the totals, after {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    typer.run(main)
