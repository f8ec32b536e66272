"""From families of metrics to the text that Prometheus scrapes, by its own library.

The library takes longer to import than a node to start: nobody imports this module before the first scrape.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from odradek.metrics.families import Family

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class _Families(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families: Final = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = Metric(family.name, family.help, family.kind.value)
            for labels, value, suffix in family.samples:
                metric.add_sample(family.name + suffix, dict(labels), value)
            yield metric


def render(families: Sequence[Family]) -> bytes:
    """With the figures of the process itself at the end."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
