"""Reports of the results: a table in the terminal, a chart, and docs/benchmarks.md."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measures import Better, Measure
from bench.page import THREE_BROKERS_SECTION, generated_sections, replace_section
from bench.products import PRODUCTS
from bench.results import Results
from bench.suites import Suite

_KAFKA_COLOUR, _GOOD_COLOUR, _MISSED_COLOUR, _INK = "#8a8f98", "#2a9d8f", "#d1495b", "#22262b"


def number(value: float) -> str:
    """Three significant digits, with thousands separators."""
    if value >= 1000:
        return f"{round(value, 2 - len(str(int(value))) + 1):,.0f}"
    return f"{value:.3g}"


def print_table(suite: Suite, results: Results, console: Console) -> None:
    title = f"Odradek and Apache Kafka {results.machine['kafka']}, {suite.title}, median of {results.repetitions}"
    table = Table(title=title)
    for column in ("measure", "Kafka", "Odradek", "ratio", "target", ""):
        table.add_column(column, justify="left" if column == "measure" else "right")
    for measure in suite.measures:
        ratio = results.ratio(measure)
        met = measure.meets_target(ratio)
        table.add_row(
            measure.title,
            f"{number(results.median('kafka', measure))} {measure.unit}",
            f"{number(results.median('odradek', measure))} {measure.unit}",
            f"[bold {'green' if met else 'red'}]{ratio:.2f} ×[/]",
            _target_text(measure),
            "✓" if met else "✗",
        )
    console.print(table)


def _target_text(measure: Measure) -> str:
    return f"{measure.better.value} {measure.target:g} ×"


def draw(suite: Suite, results: Results, file: Path) -> None:
    """Ratios on a logarithmic scale, where longer is always better; a tick marks each target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measures = list(reversed(suite.measures))
    figure, axes = pyplot.subplots(figsize=(10, 0.55 * len(measures) + 1.6), dpi=150)
    for row, measure in enumerate(measures):
        ratio = results.ratio(measure)
        met = measure.meets_target(ratio)
        axes.barh(
            row, _advantage(measure, ratio) - 1, left=1, height=0.55, color=_GOOD_COLOUR if met else _MISSED_COLOUR
        )
        target = _advantage(measure, measure.target)
        axes.plot([target, target], [row - 0.4, row + 0.4], color=_INK, linewidth=1.6)
        values = " / ".join(number(results.median(broker, measure)) for broker in ("odradek", "kafka"))
        axes.annotate(
            f"{_advantage(measure, ratio):.1f}×   {values} {measure.unit}",
            (max(_advantage(measure, ratio), target, 1), row),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=_INK,
        )
    axes.axvline(1, color=_KAFKA_COLOUR, linewidth=1.2)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), high * 4)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20], ["½", "1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.set_yticks(range(len(measures)), [measure.title for measure in measures], fontsize=9)
    axes.set_xlabel(
        "times better than Apache Kafka (Kafka is 1); black ticks are the targets", fontsize=8.5, color=_INK
    )
    axes.set_title(f"Odradek and Apache Kafka {results.machine['kafka']}, {suite.title}", fontsize=12, loc="left")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    pyplot.close(figure)


def _advantage(measure: Measure, ratio: float) -> float:
    return ratio if measure.better is Better.HIGHER else 1 / ratio


def write_page(suite: Suite, results: Results, page: Path, picture: Path) -> None:
    """Writes the suite's part of docs/benchmarks.md."""
    fields = {
        "picture": picture.relative_to(page.parent).as_posix(),
        "rows": "\n".join(_rows(suite, results)),
        "repetitions": results.repetitions,
        **results.machine,
    }
    if suite.name == "one-broker":
        page.write_text(_PAGE.format(**fields) + generated_sections(page))
    else:
        replace_section(page, THREE_BROKERS_SECTION, _THREE_BROKERS.format(**fields))


def _rows(suite: Suite, results: Results) -> Iterator[str]:
    for measure in suite.measures:
        ratio = results.ratio(measure)
        cells = [measure.title]
        for product in PRODUCTS:
            low, high = results.spread(product, measure)
            cells.append(f"{number(results.median(product, measure))} {measure.unit} ({number(low)}–{number(high)})")
        verdict = "met" if measure.meets_target(ratio) else "**missed**"
        yield f"| {' | '.join(cells)} | {ratio:.2f} × | {_target_text(measure)} | {verdict} |"


_PAGE = """# Benchmarks

![Odradek compared with Apache Kafka]({picture})

One broker, one partition; {cores} cores, {memory}, {system}; Python {python}, Java {java},
Apache Kafka {kafka} with a heap of 1 GiB and G1. Commit {commit}. Medians of {repetitions} repetitions, with lowest and
highest values in brackets. `make bench ARGS=--docs` writes this page.

| measure | Kafka | Odradek | ratio | target | |
|---|---|---|---|---|---|
{rows}

## Method

- `make bench` starts Apache Kafka and Odradek in turn, each on an empty directory with the same `server.properties`,
  and repeats that. Clients and broker share the computer's cores, for both products.
- Odradek runs on the Python interpreter named above. Compared with one that was built without optimizations, as pyenv
  does by default, Debian's used 8 % less broker CPU time on small requests and 16 % less on offset commits.
- Each session starts with three rounds of producing and consuming, so that Kafka's just-in-time compiler has compiled
  the code before the measurement.
- `kafka-producer-perf-test` runs with batches of 64 KiB, 5 ms linger, acks=all and idempotence; confluent-kafka with
  batches of 1 MB and acks=all. Throughput is measured from the first send to the last acknowledgement.
- Latency is the time from `produce` until `poll` returns, with one producer and one consumer, 1,000 records per second
  and no linger.
- Start is the time from starting the process until its first Metadata response that contains a broker.
- CPU is the broker's user and system time during the three produce loads, per 10⁹ bytes of record values.

## End-to-end latency of a record

About 0.17 ms of the p50 are spent in the clients and the kernel, with either broker. Within Odradek, from the arrival
of the Produce request until the Fetch response is sent: about 18 µs for frame, header and request, 16 µs for the checks
of the batch, 21 µs for the append (6 µs of it the write), 17 µs to wake the reader and build its response, and 28 µs in
the system call that sends it. The acknowledgement is sent afterwards. The same Python code takes 22 µs if requests
follow each other directly: at a thousand per second the CPU caches are cold, and each call costs about three times as
much. The rest is about sixty calls of one microsecond each, none of which stands out.

Treat the numbers as ratios on one computer, not as predictions for your hardware. `bench-results/one-broker.json`
contains every value of a run.
"""

_THREE_BROKERS = """
![Odradek compared with Apache Kafka, three brokers]({picture})

Three combined nodes on one computer, topics with one partition, three replicas and `min.insync.replicas=2`, acks=all;
{cores} cores, {memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1 for each broker.
Commit {commit}. Medians of {repetitions} repetitions, with lowest and highest values in brackets.

| measure | Kafka | Odradek | ratio | target | |
|---|---|---|---|---|---|
{rows}

- Tools and settings are the same as for one broker. All three brokers and the clients share the computer's cores.
- Start is the time from starting the three processes until each knows all of them and every voter follows the leader.
- Catch-up: a follower is stopped, records of 1 KiB are produced, and the follower is restarted. Measured is what
  arrives on its disk, from the first byte to the last.
"""
