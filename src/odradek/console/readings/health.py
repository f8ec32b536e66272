"""Summarizes the health of the cluster in one sentence, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from odradek.base.ids import TopicPartition
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import Tone, format_count, format_list


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProblems:
    """Unhealthy partitions; each set is a subset of the next."""

    offline: tuple[TopicPartition, ...]
    under_min_isr: tuple[TopicPartition, ...]
    under_replicated: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    tone: Tone
    sentence: str


def partition_problems(snapshot: ClusterSnapshot) -> PartitionProblems:
    offline, under_min, under = [], [], []
    for name, layout in sorted(snapshot.partitions.items()):
        if len(layout.isr) >= len(layout.replicas) and layout.leader >= 0:
            continue
        under.append(name)
        if layout.leader < 0:
            offline.append(name)
        if len(layout.isr) < snapshot.needed_in_sync(name.topic, layout) or layout.leader < 0:
            under_min.append(name)
    return PartitionProblems(offline=tuple(offline), under_min_isr=tuple(under_min), under_replicated=tuple(under))


def health_of(snapshot: ClusterSnapshot) -> Health:
    problems = partition_problems(snapshot)
    reason = _reason(snapshot, problems.under_replicated)
    if snapshot.quorum is not None and snapshot.quorum.leader_id < 0:
        return Health(tone=Tone.BAD, sentence="No active controller: metadata cannot be changed.")
    if problems.offline:
        what = (
            f"{format_count(len(problems.offline), 'partition')} cannot be read or written"
            f" ({format_list(problems.offline, 3)})"
        )
        return Health(tone=Tone.BAD, sentence=f"{what}{reason}.")
    if problems.under_min_isr:
        names = format_list(problems.under_min_isr, 3)
        refusing = format_count(len(problems.under_min_isr), "partition rejects", "partitions reject")
        what = f"{refusing} writes with acks=all, being below min.insync.replicas ({names})"
        return Health(tone=Tone.BAD, sentence=f"{what}{reason}.")
    if problems.under_replicated:
        names = format_list(problems.under_replicated, 3)
        missing = format_count(len(problems.under_replicated), "partition is", "partitions are")
        return Health(
            tone=Tone.WARNING, sentence=f"All partitions are online, but {missing} under-replicated ({names}){reason}."
        )
    if snapshot.down:
        return Health(
            tone=Tone.WARNING,
            sentence=f"All partitions are online, but {describe_down_brokers(snapshot, snapshot.down)}.",
        )
    if snapshot.unresponsive:
        since = clock_time(snapshot.unresponsive_since_ms[snapshot.unresponsive[0]])
        verb, them = ("has", "it") if len(snapshot.unresponsive) == 1 else ("have", "them")
        names = f"{'broker' if len(snapshot.unresponsive) == 1 else 'brokers'} {format_list(snapshot.unresponsive)}"
        text = f"{names} {verb} been unresponsive since {since}; the controller has not fenced {them} yet"
        return Health(tone=Tone.WARNING, sentence=f"{text[:1].upper()}{text[1:]}.")
    reassigning = (
        f" {format_count(len(snapshot.reassignments), 'partition')} being reassigned." if snapshot.reassignments else ""
    )
    brokers = format_count(len(snapshot.reachable), "broker")
    partitions = format_count(len(snapshot.partitions), "partition")
    return Health(tone=Tone.GOOD, sentence=f"Healthy: {brokers}, {partitions}, all replicas in sync.{reassigning}")


def describe_down_brokers(snapshot: ClusterSnapshot, brokers: Sequence[int]) -> str:
    """`broker 3 has been down since 12:03`."""
    return format_list([_down(snapshot, broker) for broker in brokers], 3)


def _down(snapshot: ClusterSnapshot, broker: int) -> str:
    if broker not in snapshot.members:
        return f"broker {broker} is no longer registered"
    since = snapshot.down_since_ms.get(broker)
    return f"broker {broker} has been down since {clock_time(since)}" if since else f"broker {broker} is down"


def clock_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).strftime("%H:%M:%S")


def missing_brokers(snapshot: ClusterSnapshot, partitions: Sequence[TopicPartition]) -> list[int]:
    """Returns the down brokers that hold out-of-sync replicas of these partitions."""
    found: set[int] = set()
    for name in partitions:
        layout = snapshot.partitions[name]
        found.update(
            broker
            for broker in layout.replicas
            if broker not in layout.isr and (broker in snapshot.down or broker not in snapshot.members)
        )
    return sorted(found)


def _reason(snapshot: ClusterSnapshot, partitions: Sequence[TopicPartition]) -> str:
    missing = missing_brokers(snapshot, partitions)
    if missing:
        return f" because {describe_down_brokers(snapshot, missing)}"
    reassigning = {reassignment.partition for reassignment in snapshot.reassignments}
    if partitions and reassigning.issuperset(partitions):
        return " because they are being reassigned"
    return " because replicas are catching up" if partitions else ""
