"""Renders metric families as Prometheus text, with Prometheus' own library.

The library takes longer to import than a node to start, so this module is imported with the first scrape. It runs in a
thread that releases the interpreter often, so that the event loop need not wait for it.
"""

from collections.abc import Iterable, Iterator
from time import sleep
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

from odradek.observe.families import Family

SAMPLES_PER_SLICE: Final = 50
"""About half a millisecond."""
PAUSE_SECONDS: Final = 0.0001


class _Samples:
    """The samples of one family, created while they are written: thousands of partitions have tens of thousands."""

    def __init__(self, family: Family) -> None:
        self._family: Final = family

    def __iter__(self) -> Iterator[Sample]:
        name = self._family.name
        for number, (labels, value, suffix) in enumerate(self._family.samples, 1):
            if number % SAMPLES_PER_SLICE == 0:
                sleep(PAUSE_SECONDS)
            yield Sample(name + suffix, labels, value)  # type: ignore[arg-type]


class _Families(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families: Final = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric: Any = Metric(family.name, family.help, family.kind.value)
            metric.samples = _Samples(family)
            yield metric


def render(families: Iterable[Family]) -> bytes:
    """Appends the process metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
