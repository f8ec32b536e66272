"""Runs the orders pipeline with its own broker and checks that the result is exact: `python -m examples.orders`.

Exit codes: 0 exact, 1 orders lost or duplicated, 2 cannot run, 130 interrupted.
"""

import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from examples.runtime.command import exit_code_of
from examples.runtime.errors import PipelineError
from examples.runtime.interruption import interrupts_deferred
from examples.runtime.java import find_java

if TYPE_CHECKING:
    from examples.orders.run import RunResult

DEFAULT_OUTPUT = Path("pipeline-results")
PARQUET_NAME = "orders.parquet"
LOG_NAME = "spark.log"
EXIT_INEXACT = 1


def main(
    orders: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of orders to produce.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same orders.")] = 7,
    rate: Annotated[float, typer.Option(min=1, help="Orders produced per second.")] = 2_000,
    output: Annotated[
        Path, typer.Option(help="Directory for the Parquet files, the chart and Spark's log.")
    ] = DEFAULT_OUTPUT,
    bootstrap: Annotated[str, typer.Option(help="A running broker to use instead of starting one.")] = "",
) -> None:
    """Stream orders through Spark, from a topic into Parquet and, aggregated, into another topic."""
    console = Console()
    exit_code = exit_code_of(
        lambda: _run(orders, seed, rate, output.absolute(), bootstrap, console),
        console,
        interrupted="interrupted; the broker and Spark are stopped",
    )
    sys.exit(exit_code)


def _run(order_count: int, seed: int, rate: float, output: Path, bootstrap: str, console: Console) -> int:
    # Check for missing components before importing PySpark.
    java = find_java()
    from examples.orders.run import RunSettings, run_pipeline
    from examples.orders.topics import Topics
    from examples.runtime.broker import local_broker
    from examples.runtime.jars import connector_jars, jars_directory

    jars = connector_jars(jars_directory(), lambda jar: console.print(f"fetching {jar.coordinates} with Maven, once"))
    parquet = _check_output(output)
    started = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        work_directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="odradek-orders-")))
        broker = None
        if not bootstrap:
            with console.status("starting a broker"):
                broker = cleanup.enter_context(local_broker(work_directory / "broker"))
            bootstrap = broker.bootstrap
            console.print(f"broker ready at {bootstrap} after {time.monotonic() - started:.1f} s")
        raise_if_interrupted = cleanup.enter_context(interrupts_deferred())

        def raise_if_over() -> None:
            raise_if_interrupted()
            if broker is not None:
                broker.raise_if_ended()

        console.print(f"Java {java.major_version}, {order_count:,} orders with seed {seed}, {rate:,.0f} per second")
        settings = RunSettings(
            bootstrap=bootstrap,
            topics=Topics(),
            order_count=order_count,
            seed=seed,
            orders_per_second=rate,
            jars=tuple(jars),
            parquet=parquet,
            work_directory=work_directory,
            spark_log=output / LOG_NAME,
        )
        result = run_pipeline(settings, console, raise_if_over)
    return _report(result, output, time.monotonic() - started, console)


def _report(result: "RunResult", output: Path, seconds: float, console: Console) -> int:
    from examples.orders.check import comparison_table
    from examples.orders.plot import save_plot

    plot = output / "orders.png"
    save_plot(plot, result.samples, result.comparison.totals_topic)
    console.print(comparison_table(result.comparison))
    console.print(f"Parquet  {output / PARQUET_NAME}", highlight=False, soft_wrap=True)
    console.print(f"chart    {plot}", highlight=False, soft_wrap=True)
    differences = result.comparison.differences()
    if not differences:
        console.print(f"exact: every order once, in Parquet and in the totals, after {seconds:.1f} s")
        return 0
    for difference in differences:
        console.print(difference, style="red", highlight=False, markup=False)
    return EXIT_INEXACT


def _check_output(output: Path) -> Path:
    """Checks that this run can write its files, and keeps files that no earlier run has written."""
    parquet = output / PARQUET_NAME
    if parquet.exists() and not (parquet / "_spark_metadata").is_dir():
        raise PipelineError(f"{parquet} was not written by this pipeline: move it or choose another --output")
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / LOG_NAME).write_bytes(b"")
    except OSError as error:
        raise PipelineError(f"cannot write to {output}: {error.strerror}") from error
    return parquet


if __name__ == "__main__":
    typer.run(main)
