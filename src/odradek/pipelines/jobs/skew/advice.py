"""Derives figures and suggestions from a summary. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.client.partitioner import partition_of_key
from odradek.pipelines.jobs.skew.heavy_keys import KEY_BYTES_MAX
from odradek.pipelines.jobs.skew.summary import Summary

# Partitions above this multiple of the mean are reported.
_UNEVEN: Final = 1.5
_HOT_FOR_A_WHILE: Final = 3.0
_KEYS_SHOWN: Final = 20
# Windows with fewer records per partition are not significant.
_RECORDS_MIN: Final = 20
_MULTIPLES: Final = (2, 3, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    key: bytes
    records: int
    """A lower bound. The count may be higher by up to the findings' `missed`."""
    share: float
    partition: int | None
    """The partition that Java clients choose; None if the key is too long to be stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewFindings:
    topic: str
    summary: Summary
    partition_count: int
    keys: tuple[HotKey, ...]
    missed: int
    unevenness: float
    """The records of the largest partition, divided by the mean."""
    suggestions: tuple[str, ...]


def judge(topic: str, summary: Summary, partition_count: int) -> SkewFindings:
    records = max(1, summary.records)
    keys = tuple(
        HotKey(
            key=key,
            records=count,
            share=count / records,
            partition=partition_of_key(key, partition_count) if len(key) <= KEY_BYTES_MAX else None,
        )
        for key, count in summary.keys.top(_KEYS_SHOWN)
    )
    fullest = max((one.records for one in summary.partitions.values()), default=0)
    unevenness = fullest * partition_count / records
    return SkewFindings(
        topic=topic,
        summary=summary,
        partition_count=partition_count,
        keys=keys,
        missed=summary.keys.missed,
        unevenness=unevenness,
        suggestions=tuple(_suggestions(summary, partition_count, keys, unevenness)),
    )


def _suggestions(summary: Summary, partition_count: int, keys: Sequence[HotKey], unevenness: float) -> Iterator[str]:
    if not summary.records:
        yield "The topic has no records."
        return
    heavy = [one for one in keys if partition_count > 1 and one.share * partition_count >= _UNEVEN]
    for one in heavy:
        yield (
            f"{one.share:.0%} of all records have the key {key_text(one.key)}, {one.share * partition_count:.1f} times "
            "a partition's fair share. More partitions do not help. If the order of these records does not matter, "
            "split the key into several, for example key-1 to key-8."
        )
    if unevenness < _UNEVEN:
        yield f"The largest partition has {unevenness:.2f} times the mean. The partitions are balanced."
    elif not heavy and summary.without_key > summary.records / 2:
        yield (
            f"The largest partition has {unevenness:.1f} times the mean, and most records have no key. Their producers "
            "choose partitions explicitly or send few large batches."
        )
    elif not heavy:
        yield _more_partitions(partition_count, keys, unevenness)
    yield from _for_a_while(summary, partition_count)


def _more_partitions(partition_count: int, keys: Sequence[HotKey], unevenness: float) -> str:
    begin = f"The largest partition has {unevenness:.1f} times the mean because several hot keys share it"
    for multiple in _MULTIPLES:
        count = partition_count * multiple
        expected = _estimate_unevenness(keys, count)
        if expected < _UNEVEN:
            return (
                f"{begin}. With {count} partitions, expect {expected:.1f} times the mean. Keys then move to other "
                "partitions, so their order is only kept from then on."
            )
    return f"{begin}. More partitions would not separate these keys."


def _estimate_unevenness(keys: Sequence[HotKey], partition_count: int) -> float:
    """Estimate the unevenness if these keys are placed by Java clients and the rest is uniform."""
    shares = [0.0] * partition_count
    for one in keys:
        if one.partition is not None:
            shares[partition_of_key(one.key, partition_count)] += one.share
    return max(shares) * partition_count + 1 - sum(shares)


def _for_a_while(summary: Summary, partition_count: int) -> Iterator[str]:
    worst: tuple[float, int, int] | None = None
    for number, window in summary.windows.items():
        records = sum(window.partitions.values())
        if records < _RECORDS_MIN * partition_count:
            continue
        partition, most = max(window.partitions.items(), key=lambda one: one[1])
        times = most * partition_count / records
        if times >= _HOT_FOR_A_WHILE and (worst is None or times > worst[0]):
            worst = times, number, partition
    if worst is not None and len(summary.windows) > 1:
        times, number, partition = worst
        hot = summary.windows[number].keys.top(1)
        by = f", mostly records with the key {key_text(hot[0][0])}" if hot else ""
        yield (
            f"For {summary.window_ms / 1000:,.0f} s partition {partition} had {times:.1f} times the mean{by}. Its "
            "consumer "
            "may fall behind during such bursts, even if the topic is balanced overall."
        )


def key_text(key: bytes) -> str:
    """Return the key as printable text that is safe for terminals."""
    text = key.decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text[:100]) or "(empty)"
