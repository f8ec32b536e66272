"""Results for people: a table in the terminal, a picture, and docs/benchmarks.md."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import commit_load, transaction_load
from bench.measures import Better, Measure
from bench.page import GROUPS_SECTION, THREE_BROKERS_SECTION, own_sections, replace_section
from bench.products import PRODUCTS
from bench.results import Results
from bench.suites import Suite

_KAFKA_COLOUR, _GOOD_COLOUR, _MISSED_COLOUR, _INK = "#8a8f98", "#2a9d8f", "#d1495b", "#22262b"


def number(value: float) -> str:
    """Three telling digits, thousands set apart."""
    if value >= 1000:
        return f"{round(value, 2 - len(str(int(value))) + 1):,.0f}"
    return f"{value:.3g}"


def print_table(suite: Suite, results: Results, console: Console) -> None:
    title = f"Odradek beside Apache Kafka {results.machine['kafka']}, {suite.title}, median of {results.repetitions}"
    table = Table(title=title)
    for column in ("measure", "Kafka", "Odradek", "ratio", "bar", ""):
        table.add_column(column, justify="left" if column == "measure" else "right")
    for measure in suite.measures:
        ratio = results.ratio(measure)
        met = measure.meets_bar(ratio)
        table.add_row(
            measure.title,
            f"{number(results.median('kafka', measure))} {measure.unit}",
            f"{number(results.median('odradek', measure))} {measure.unit}",
            f"[bold {'green' if met else 'red'}]{ratio:.2f} ×[/]",
            _bar_text(measure),
            "✓" if met else "✗",
        )
    console.print(table)


def _bar_text(measure: Measure) -> str:
    return f"{measure.better.value} {measure.bar:g} ×"


def draw(suite: Suite, results: Results, file: Path) -> None:
    """Ratios on a logarithmic scale, drawn so that longer is better everywhere; a tick marks each bar."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measures = list(reversed(suite.measures))
    figure, axes = pyplot.subplots(figsize=(10, 0.55 * len(measures) + 1.6), dpi=150)
    for row, measure in enumerate(measures):
        ratio = results.ratio(measure)
        met = measure.meets_bar(ratio)
        axes.barh(
            row, _advantage(measure, ratio) - 1, left=1, height=0.55, color=_GOOD_COLOUR if met else _MISSED_COLOUR
        )
        bar = _advantage(measure, measure.bar)
        axes.plot([bar, bar], [row - 0.4, row + 0.4], color=_INK, linewidth=1.6)
        values = " / ".join(number(results.median(broker, measure)) for broker in ("odradek", "kafka"))
        axes.annotate(
            f"{_advantage(measure, ratio):.1f}×   {values} {measure.unit}",
            (max(_advantage(measure, ratio), bar, 1), row),
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
        "times better than Apache Kafka (its line is 1); black ticks are the bars", fontsize=8.5, color=_INK
    )
    axes.set_title(f"Odradek beside Apache Kafka {results.machine['kafka']}, {suite.title}", fontsize=12, loc="left")
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
    """docs/benchmarks.md: the numbers, how they were got, and what they do not say. Each suite writes its own part."""
    filled = {
        "picture": picture.relative_to(page.parent).as_posix(),
        "rows": "\n".join(_rows(suite, results)),
        "repetitions": results.repetitions,
        "groups": commit_load.GROUPS,
        "producers": transaction_load.PRODUCERS,
        **results.machine,
    }
    if suite.name == "one-broker":
        page.write_text(_PAGE.format(**filled) + own_sections(page))
    elif suite.name == "three-brokers":
        replace_section(page, THREE_BROKERS_SECTION, _THREE_BROKERS.format(**filled))
    else:
        replace_section(page, GROUPS_SECTION, _GROUPS.format(**filled))


def _rows(suite: Suite, results: Results) -> Iterator[str]:
    for measure in suite.measures:
        ratio = results.ratio(measure)
        cells = [measure.title]
        for product in PRODUCTS:
            low, high = results.spread(product, measure)
            cells.append(f"{number(results.median(product, measure))} {measure.unit} ({number(low)}–{number(high)})")
        verdict = "met" if measure.meets_bar(ratio) else "**missed**"
        yield f"| {' | '.join(cells)} | {ratio:.2f} × | {_bar_text(measure)} | {verdict} |"


_PAGE = """# Benchmarks

![Odradek beside Apache Kafka]({picture})

One broker, one partition; {cores} cores, {memory}, {system}; Python {python}, Java {java}, Apache Kafka {kafka} with
a heap of 1 GiB and G1. Commit {commit}. Medians of {repetitions} repetitions, lowest and highest in brackets. This page
is written by `make bench ARGS=--docs`.

| measure | Kafka | Odradek | ratio | bar | |
|---|---|---|---|---|---|
{rows}

## How it is measured

- `make bench` starts Apache Kafka and Odradek in turn, each on an empty directory and with the same
  `server.properties`, and repeats that. Clients and broker share the machine's cores, for both alike.
- Each session starts with a warm-up of producing and consuming, so that Kafka's just-in-time compiler has seen the
  work before the clock starts.
- `kafka-producer-perf-test` runs with batches of 64 KiB, 5 ms of linger, acks=all and idempotence; confluent-kafka
  with batches of 1 MB and acks=all. Throughput counts from the first send to the last acknowledgement.
- Small requests are Produce requests of one record of 100 bytes, five under way on one connection, over a bare socket.
- Latency is the time from `produce` to the return of `poll`, one producer and one consumer, 1,000 records per second,
  no linger.
- Start is the time from starting the process to its first answered Metadata request that names a broker.
- CPU is the broker's user and system time over the three produce loads, per 10⁹ bytes of record values.

## Where the time of a record goes, end to end

Of the p50, some 0.17 ms are spent in the clients and the kernel, whichever broker serves them. Within Odradek, from the
arrival of the Produce request to the Fetch response leaving: about 18 µs for frame, header and request, 16 µs for the
checks of the batch, 21 µs for the append (6 µs of it the write), 17 µs to wake the reader and make its response, and 28
µs in the system call that sends it. The acknowledgement is sent after that. The same Python takes 22 µs where one
request follows the other: at a thousand a second the caches have gone cold in between, and each call costs some three
times as much. What is left is some sixty calls of about a microsecond each, none of which stands out.

Treat the numbers as ratios on one machine, not as what your hardware will do. `bench-results/one-broker.json` has every
value of a run.
"""

_THREE_BROKERS = """
![Odradek beside Apache Kafka, three brokers]({picture})

Three combined nodes on one machine, topics with one partition, three replicas and `min.insync.replicas=2`, acks=all;
{cores} cores, {memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1 for each broker.
Commit {commit}. Medians of {repetitions} repetitions, lowest and highest in brackets.

| measure | Kafka | Odradek | ratio | bar | |
|---|---|---|---|---|---|
{rows}

- Tools and settings are those of one broker. All three brokers and the clients share the machine's cores.
- Start is the time from starting the three processes until each of them knows all of them and every voter follows.
- Catch-up: a follower is stopped, records of 1 KiB are produced, it is started again; counted is what arrives on its
  disk, from the first byte to the last.
"""

_GROUPS = """
![Odradek beside Apache Kafka, groups and transactions]({picture})

One broker, and three combined nodes with three replicas of the internal topics, all in their default configuration;
{cores} cores, {memory}, Python {python}, Java {java}, Apache Kafka {kafka} with a heap of 1 GiB and G1 for each broker.
Commit {commit}. Medians of {repetitions} repetitions, lowest and highest in brackets.

| measure | Kafka | Odradek | ratio | bar | |
|---|---|---|---|---|---|
{rows}

- Commits: {groups} groups, each on a connection of its own, with five OffsetCommit requests of one offset under way on
  each; every answer is checked.
- Transactions: {producers} producers, each with one transaction after the other: a Produce request with one record of
  100 bytes, and EndTxn, as clients of `transaction.version` 2 send them. Whoever is told to come again does so after
  20 ms, as the Java client; with three brokers, partitions and coordinators lie on all of them.
- Both over bare sockets from one light process, so that it is the broker that is measured: after 15 s in which Kafka's
  just-in-time compiler sees the work, 10 s are counted.
- `kafka-consumer-perf-test` reads by its own defaults, as a group of one; the rate is its `fetch.nMsg.sec`.
"""
