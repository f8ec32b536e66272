"""Whether the cluster is well: one sentence, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from odradek.base.ids import TopicPartition
from odradek.console.readings.sight import Sight
from odradek.console.readings.table import Tone, counted, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailing:
    """Partitions with something missing; each of these is part of the one after it."""

    offline: tuple[TopicPartition, ...]
    under_min_isr: tuple[TopicPartition, ...]
    under_replicated: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    tone: Tone
    sentence: str


def ailing_of(sight: Sight) -> Ailing:
    offline, under_min, under = [], [], []
    for name, layout in sorted(sight.partitions.items()):
        if len(layout.isr) >= len(layout.replicas) and layout.leader >= 0:
            continue
        under.append(name)
        if layout.leader < 0:
            offline.append(name)
        if len(layout.isr) < sight.needed_in_sync(name.topic, layout) or layout.leader < 0:
            under_min.append(name)
    return Ailing(offline=tuple(offline), under_min_isr=tuple(under_min), under_replicated=tuple(under))


def health_of(sight: Sight) -> Health:
    ailing = ailing_of(sight)
    reason = _reason(sight, ailing.under_replicated)
    if sight.quorum is not None and sight.quorum.leader_id < 0:
        return Health(tone=Tone.BAD, sentence="No active controller: metadata cannot be changed.")
    if ailing.offline:
        what = f"{counted(len(ailing.offline), 'partition')} cannot be read or written ({listed(ailing.offline, 3)})"
        return Health(tone=Tone.BAD, sentence=f"{what}{reason}.")
    if ailing.under_min_isr:
        names = listed(ailing.under_min_isr, 3)
        refusing = counted(len(ailing.under_min_isr), "partition rejects", "partitions reject")
        what = f"{refusing} writes with acks=all, being below min.insync.replicas ({names})"
        return Health(tone=Tone.BAD, sentence=f"{what}{reason}.")
    if ailing.under_replicated:
        names = listed(ailing.under_replicated, 3)
        missing = counted(len(ailing.under_replicated), "partition is", "partitions are")
        return Health(
            tone=Tone.WARNING, sentence=f"All partitions are online, but {missing} under-replicated ({names}){reason}."
        )
    if sight.down:
        return Health(tone=Tone.WARNING, sentence=f"All partitions are online, but {who_is_down(sight, sight.down)}.")
    if sight.lost:
        since = clock_time(sight.lost_since_ms[sight.lost[0]])
        verb, them = ("has", "it") if len(sight.lost) == 1 else ("have", "them")
        names = f"{'broker' if len(sight.lost) == 1 else 'brokers'} {listed(sight.lost)}"
        told = f"{names} {verb} been unresponsive since {since}; the controller has not fenced {them} yet"
        return Health(tone=Tone.WARNING, sentence=f"{told[:1].upper()}{told[1:]}.")
    moving = f" {counted(len(sight.moves), 'partition')} being reassigned." if sight.moves else ""
    brokers = counted(len(sight.reachable), "broker")
    partitions = counted(len(sight.partitions), "partition")
    return Health(tone=Tone.GOOD, sentence=f"Healthy: {brokers}, {partitions}, all replicas in sync.{moving}")


def who_is_down(sight: Sight, brokers: Sequence[int]) -> str:
    """`broker 3 has been down since 12:03`."""
    return listed([_down(sight, broker) for broker in brokers], 3)


def _down(sight: Sight, broker: int) -> str:
    if broker not in sight.members:
        return f"broker {broker} is no longer registered"
    since = sight.down_since_ms.get(broker)
    return f"broker {broker} has been down since {clock_time(since)}" if since else f"broker {broker} is down"


def clock_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).strftime("%H:%M:%S")


def missing_brokers(sight: Sight, partitions: Sequence[TopicPartition]) -> list[int]:
    """Those that hold a replica of one of these and are not in sync because they do not serve."""
    found: set[int] = set()
    for name in partitions:
        layout = sight.partitions[name]
        found.update(
            broker
            for broker in layout.replicas
            if broker not in layout.isr and (broker in sight.down or broker not in sight.members)
        )
    return sorted(found)


def _reason(sight: Sight, partitions: Sequence[TopicPartition]) -> str:
    missing = missing_brokers(sight, partitions)
    if missing:
        return f" because {who_is_down(sight, missing)}"
    moving = {move.partition for move in sight.moves}
    if partitions and moving.issuperset(partitions):
        return " because they are being reassigned"
    return " because replicas are catching up" if partitions else ""
