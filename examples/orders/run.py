"""One run of the pipeline, with progress output, up to the comparison of the results."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.orders.check import Comparison, compare
from examples.orders.generate import generate_orders
from examples.orders.job import JobPaths, OrdersJob
from examples.orders.plot import Sample
from examples.orders.produce import OrderProducer
from examples.orders.topics import Topics, create_topics
from examples.runtime.errors import PipelineError
from examples.runtime.session import spark_session

SAMPLE_SECONDS = 0.2
# Longer than a client needs to reconnect to a broker, and than Spark waits before a query fails.
STALL_SECONDS_MAX = 150.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    bootstrap: str
    topics: Topics
    order_count: int
    seed: int
    orders_per_second: float
    jars: tuple[Path, ...]
    parquet: Path
    work_directory: Path
    spark_log: Path


@dataclass(frozen=True, slots=True)
class RunResult:
    comparison: Comparison
    samples: list[Sample]


def run_pipeline(settings: RunSettings, console: Console, raise_if_over: Callable[[], None]) -> RunResult:
    """Produces the orders while both queries run, and waits until each has processed all of them."""
    orders = list(generate_orders(settings.order_count, settings.seed))
    create_topics(settings.bootstrap, settings.topics)
    # Delete the result of an earlier run only now that this run can start.
    shutil.rmtree(settings.parquet, ignore_errors=True)
    with contextlib.ExitStack() as cleanup:
        started = time.monotonic()
        with console.status("starting Spark"):
            session = spark_session("orders", settings.jars, settings.work_directory / "spark", settings.spark_log)
            spark = cleanup.enter_context(session)
        raise_if_over()
        console.print(f"Spark {spark.version} started in {time.monotonic() - started:.1f} s")

        paths = JobPaths(settings.parquet, settings.work_directory / "checkpoints")
        job = OrdersJob(spark, settings.bootstrap, settings.topics, paths)
        producer = OrderProducer(settings.bootstrap, settings.topics.orders, orders, settings.orders_per_second)
        cleanup.callback(producer.stop)
        cleanup.callback(job.stop)
        with console.status("starting the queries"):
            job.start()
        raise_if_over()
        samples = _show(stream(job, producer, len(orders)), len(orders), console, raise_if_over)
        job.stop()

        with console.status("comparing what was produced with Parquet and the totals topic"):
            comparison = compare(spark, settings.bootstrap, settings.topics, settings.parquet, orders)
    return RunResult(comparison, samples)


def stream(job: OrdersJob, producer: OrderProducer, order_count: int) -> Iterator[Sample]:
    """Starts producing, and yields samples until both sinks have all orders."""
    started = last_change = time.monotonic()
    counts = (0, 0, 0)
    producer.start()
    while not (producer.is_done and job.landed == job.aggregated == order_count):
        time.sleep(SAMPLE_SECONDS)
        job.refresh()
        if producer.error is not None:
            raise PipelineError(producer.error)
        before, counts = counts, (producer.acknowledged, job.landed, job.aggregated)
        now = time.monotonic()
        if counts != before:
            last_change = now
        elif now - last_change > STALL_SECONDS_MAX:
            raise PipelineError(
                f"no progress for {STALL_SECONDS_MAX:.0f} s with {counts[0]} of {order_count} orders acknowledged, "
                f"{counts[1]} in Parquet, {counts[2]} aggregated"
            )
        yield Sample(now - started, *counts)


def _show(
    stream_of_samples: Iterator[Sample], order_count: int, console: Console, raise_if_over: Callable[[], None]
) -> list[Sample]:
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    samples = [Sample(0.0, 0, 0, 0)]
    with progress:
        acknowledged = progress.add_task("acknowledged by the broker", total=order_count)
        landed = progress.add_task("in Parquet", total=order_count)
        aggregated = progress.add_task("in the totals topic", total=order_count)
        for sample in stream_of_samples:
            raise_if_over()
            samples.append(sample)
            progress.update(acknowledged, completed=sample.acknowledged)
            progress.update(landed, completed=sample.landed)
            progress.update(aggregated, completed=sample.aggregated)
    return samples
