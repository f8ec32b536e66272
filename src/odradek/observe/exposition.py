"""From families of metrics to the text that Prometheus scrapes, by its own library.

The library takes longer to import than a node to start: nobody imports this module before the first scrape. It is
called in a thread, which lets go of the interpreter so often that the event loop does not have to ask for it.
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

AT_A_STRETCH_MAX: Final = 50
"""Samples: about half a millisecond."""
PAUSE_SECONDS: Final = 0.0001


class _Samples:
    """Of one family, made while they are written: with thousands of partitions there are tens of thousands."""

    def __init__(self, family: Family) -> None:
        self._family: Final = family

    def __iter__(self) -> Iterator[Sample]:
        name = self._family.name
        for number, (labels, value, suffix) in enumerate(self._family.samples, 1):
            if number % AT_A_STRETCH_MAX == 0:
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
    """With the figures of the process itself at the end."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
