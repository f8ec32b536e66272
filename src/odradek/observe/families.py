"""Metric families, named after Kafka's MBeans by the example rules of the Prometheus JMX exporter.

The rules are those of `kafka-2_0_0.yml`: names in lower case, `PerSec` meters as `_total`, histograms as summaries.
MBeans without a rule have the names that the exporter generates.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from odradek.instruments.histogram import Histogram, quantiles

QUANTILES: Final = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
_PER_SECOND: Final = "PerSec"

Labels = Mapping[str, str]
NO_LABELS: Final[Labels] = {}


class Kind(Enum):
    """The types of the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    UNTYPED = "unknown"


class Sample(NamedTuple):
    labels: Labels
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one name, which can be iterated once. A counter's name omits `_total`."""

    name: str
    help: str
    kind: Kind
    samples: Iterable[Sample]


def bean_name(domain: str, kind: str, name: str) -> str:
    return f"{domain}_{kind}_{name}".replace(".", "_").replace("-", "_").lower()


def gauge(domain: str, kind: str, name: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    return Family(
        bean_name(domain, kind, name),
        f"{domain}:type={kind},name={name}",
        Kind.GAUGE,
        (Sample(labels, value) for labels, value in samples),
    )


def value(domain: str, kind: str, name: str, number: float) -> Family:
    return gauge(domain, kind, name, [(NO_LABELS, number)])


def meter(domain: str, kind: str, name: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    """An MBean with a Count. Without `PerSec` in the name, the rules append `_count`."""
    help_text = f"{domain}:type={kind},name={name}"
    if name.endswith(_PER_SECOND):
        counted = [Sample(labels, number, "_total") for labels, number in samples]
        return Family(bean_name(domain, kind, name.removesuffix(_PER_SECOND)), help_text, Kind.COUNTER, counted)
    others = [Sample(labels, number) for labels, number in samples]
    return Family(bean_name(domain, kind, f"{name}_count"), help_text, Kind.UNTYPED, others)


def attribute(bean: str, name: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    """An attribute of a `kafka.server` MBean without a rule."""
    return Family(
        bean_name("kafka.server", bean, name),
        f"kafka.server:type={bean} {name}",
        Kind.GAUGE,
        [Sample(labels, number) for labels, number in samples],
    )


def own(name: str, help_text: str, kind: Kind, samples: Iterable[tuple[Labels, float]]) -> Family:
    """A metric that Kafka does not have."""
    suffix = "_total" if kind is Kind.COUNTER else ""
    return Family(f"odradek_{name}", help_text, kind, [Sample(labels, number, suffix) for labels, number in samples])


class Timed(NamedTuple):
    """The durations of one label of a summary, and the number of events: not all of them are timed."""

    labels: Labels
    histograms: Sequence[Histogram]
    number: int


def summary_ms(domain: str, kind: str, name: str, samples: Iterable[Timed]) -> Family:
    """A histogram of milliseconds, with the sum that the JMX exporter cannot provide."""
    return Family(
        bean_name(domain, kind, name),
        f"{domain}:type={kind},name={name}",
        Kind.SUMMARY,
        _summary_samples(samples, 1000),
    )


def own_summary(name: str, help_text: str, histogram: Histogram) -> Family:
    samples = _summary_samples([Timed(NO_LABELS, (histogram,), histogram.count)], 1)
    return Family(f"odradek_{name}", help_text, Kind.SUMMARY, samples)


def _summary_samples(samples: Iterable[Timed], per_second: float) -> list[Sample]:
    found = []
    for labels, histograms, number in samples:
        values = quantiles(histograms, tuple(QUANTILES.values()))
        found += [
            Sample({**labels, "quantile": text}, seconds * per_second)
            for text, seconds in zip(QUANTILES, values, strict=True)
        ]
        found.append(Sample(labels, number, "_count"))
        found.append(Sample(labels, per_second * sum(one.sum_seconds for one in histograms), "_sum"))
    return found
