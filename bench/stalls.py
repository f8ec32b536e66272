"""Measures the longest stall of a broker's event loop under heavy load of all kinds, and names its cause.

While clients produce, consume, commit offsets, request the metadata of many topics and change topics, the broker loads
and compacts a large `__consumer_offsets`. A watchdog in the broker looks at its threads whenever the event loop does
not run for 20 ms.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

from bench.mixed_load import CONFIGS, MixedLoad
from bench.page import PAGE, STALLS_SECTION, replace_section
from bench.products import ODRADEK, data_directory, wide_console
from bench.results import RESULTS, describe_machine
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.node.run import STALL_LOG_VARIABLE
from tests import offsets_log
from tests.apis import Api
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import TOPIC_RESOURCE, alter_configs, create_topic

SECONDS: Final = 40.0
MEGABYTES: Final = 60
TOPICS: Final = 2000
TOPICS_PER_REQUEST: Final = 200
STALL_MS_MAX: Final = 50.0
# From this on, the watchdog looks at the threads.
REPORTED_MS: Final = 20.0
SHOWN: Final = 10
_SOURCE: Final = "/odradek/"


class WatchedBroker(OdradekProcess):
    @property
    def stall_log(self) -> Path:
        return self.directory / "stalls.json"

    def environment(self) -> dict[str, str]:
        return super().environment() | {STALL_LOG_VARIABLE: str(self.stall_log)}


class WatchedWithoutNumba(WatchedBroker, offsets_log.WithoutNumba):
    """A broker for which numba is not installed."""


BROKERS: Final[dict[str, type[WatchedBroker]]] = {"with numba": WatchedBroker, "without numba": WatchedWithoutNumba}


class Run(NamedTuple):
    stalls: list[dict[str, Any]]
    has_loaded: bool
    """Whether loading of the large log ended during the load, and its compaction."""
    has_compacted: bool


def run(kind: type[WatchedBroker], seconds: float, megabytes: int, console: Console) -> Run:
    with data_directory(ODRADEK) as directory:
        (http_port,) = free_ports(1)
        node = kind(directory, properties=offsets_log.PROPERTIES | {"http.address": str(http_port)})
        try:
            node.start()
            _create_topics(node)
            node.stop()
            offsets_log.fill(node, megabytes * 1_000_000)
            node.stall_log.unlink()
            node.start()
            load = MixedLoad(Address("127.0.0.1", node.port), http_port)
            _allow_compaction(node)
            load.run(seconds)
            console.print(", ".join(f"{count} {name}" for name, count in load.requests.items()))
            has_loaded, has_compacted = offsets_log.has_loaded(node), offsets_log.has_compacted(node)
            for done, name in ((has_loaded, "loaded"), (has_compacted, "compacted")):
                console.print(f"{offsets_log.TOPIC} was {'' if done else 'not '}{name} meanwhile")
            node.stop()
            stalls = [json.loads(line) for line in node.stall_log.read_text().splitlines()]
            return Run(stalls, has_loaded, has_compacted)
        finally:
            node.kill()


def _create_topics(node: OdradekProcess) -> None:
    offsets_log.create_offsets_topic(node)
    with RawConnection(node.port) as connection:
        for name, configs in CONFIGS.items():
            assert create_topic(connection, name, configs=configs) is ErrorCode.none
        for start in range(0, TOPICS, TOPICS_PER_REQUEST):
            names = (f"idle-{number}" for number in range(start, start + TOPICS_PER_REQUEST))
            topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
            connection.request(Api.CREATE_TOPICS, 7, {"topics": topics, "timeout": 30_000})


def _allow_compaction(node: OdradekProcess) -> None:
    with RawConnection(node.port) as connection:
        change = {"min.cleanable.dirty.ratio": "0.01"}
        assert alter_configs(connection, TOPIC_RESOURCE, offsets_log.TOPIC, change)[0] is ErrorCode.none


def net_milliseconds(stall: dict[str, Any]) -> float:
    """Without the time that the broker waited for a processor: a busy computer is not a stalled loop."""
    return max(0.0, float(stall["milliseconds"] - stall["waited_for_processor_milliseconds"]))


def cause_of(stall: dict[str, Any]) -> str:
    """The innermost frame of Odradek on the event loop, or else in another thread."""
    found = _own_frame(stall["loop"])
    if found is not None:
        return f"event loop: {found}"
    for thread in stall["threads"]:
        found = _own_frame(thread["stack"])
        if found is not None:
            return f"thread {thread['name']}: {found}"
    return "unknown"


def _own_frame(stack: list[str]) -> str | None:
    """None if the thread only runs the event loop, or waits."""
    frames = [frame.partition(_SOURCE)[2] for frame in stack if _SOURCE in frame]
    return None if not frames or frames[0].startswith("node/run.py") else frames[0]


def _show(stalls: list[dict[str, Any]], console: Console) -> None:
    console.print(f"{len(stalls)} stalls of more than {REPORTED_MS:g} ms with waits for a processor, by cause:")
    for cause, count in Counter(map(cause_of, stalls)).most_common(SHOWN):
        of_cause = [net_milliseconds(stall) for stall in stalls if cause_of(stall) == cause]
        console.print(f"  {count:4} × up to {max(of_cause):5.0f} ms  {cause}", highlight=False)
    stalls.sort(key=net_milliseconds, reverse=True)
    for stall in stalls[:3]:
        total = stall["milliseconds"]
        console.print(f"{net_milliseconds(stall):.0f} ms ({total:.0f} ms with waits for a processor):", highlight=False)
        for frame in stall["loop"][:6]:
            console.print(f"    {frame}", highlight=False)
        for thread in stall["threads"]:
            console.print(f"    beside it {thread['name']}: {' < '.join(thread['stack'][:3])}", highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.stalls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"duration of the load (default: {SECONDS:g})")
    parser.add_argument(
        "--megabytes", type=int, default=MEGABYTES, help=f"size of {offsets_log.TOPIC} (default: {MEGABYTES})"
    )
    parser.add_argument("--without-numba", action="store_true", help="hide numba from the broker")
    parser.add_argument(
        "--docs", action="store_true", help="write the section of docs/benchmarks.md, from runs with and without numba"
    )
    given = parser.parse_args()
    console = wide_console()
    chosen = list(BROKERS) if given.docs else ["without numba" if given.without_numba else "with numba"]
    runs = {}
    for title in chosen:
        console.print(title)
        runs[title] = run(BROKERS[title], given.seconds, given.megabytes, console)
        _show(runs[title].stalls, console)
    longest = max(longest_milliseconds(one.stalls) for one in runs.values())
    console.print(f"longest stall: {longest:.0f} ms; target ≤ {STALL_MS_MAX:g} ms")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "stalls.json").write_text(
        json.dumps({title: one._asdict() for title, one in runs.items()}, indent=2) + "\n"
    )
    if given.docs:
        rows = "\n".join(row_of(title, one) for title, one in runs.items())
        text = _SECTION.format(
            rows=rows,
            seconds=f"{given.seconds:g}",
            megabytes=given.megabytes,
            topics=f"{TOPICS:,}",
            **describe_machine(),
        )
        replace_section(PAGE, STALLS_SECTION, text)
    return 0 if longest <= STALL_MS_MAX else 1


def longest_milliseconds(stalls: list[dict[str, Any]]) -> float:
    return max(map(net_milliseconds, stalls), default=0.0)


def row_of(title: str, watched: Run) -> str:
    stalls = watched.stalls
    longest = longest_milliseconds(stalls)
    cause = cause_of(max(stalls, key=net_milliseconds)) if stalls else "none"
    count = sum(net_milliseconds(stall) > REPORTED_MS for stall in stalls)
    cells = [
        title,
        *("yes" if done else "**no**" for done in (watched.has_loaded, watched.has_compacted)),
        str(count),
        f"{longest:.0f} ms",
        f"`{cause}`",
        f"≤ {STALL_MS_MAX:g} ms",
        "met" if longest <= STALL_MS_MAX else "**missed**",
    ]
    return f"| {' | '.join(cells)} |"


_SECTION = """
The longest time in which the event loop of a broker did not run, while clients produce, consume, commit offsets,
request the metadata of {topics} topics and change topics for {seconds} s, and the broker loads and compacts a
`__consumer_offsets` of {megabytes} MB; {cores} cores, {memory}, Python {python}. Commit {commit}.
`make bench-stalls ARGS=--docs` writes this section.

| broker | loaded meanwhile | compacted meanwhile | stalls over 20 ms | longest | its cause | target | |
|---|---|---|---:|---:|---|---:|---|
{rows}

- The time that the broker waited for a processor is not included: clients and broker share the cores.
- The cause is the innermost frame of Odradek on the event loop when a watchdog found the stall, or else in a thread.
"""


if __name__ == "__main__":
    sys.exit(main())
