"""What a run amounts to, as a table for people and as JSON for programs."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

from tests.chaos.checker import Anomaly
from tests.chaos.history import OPEN, REFUSED, History
from tests.chaos.transactions import figures as transactions
from tests.chaos.transactions.figures import TransactionFigures

_ANOMALIES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    seed: int
    seconds: float
    sent: int
    acknowledged: int
    refused: int
    unknown: int
    read_by_consumers: int
    read_finally: int
    strikes: Mapping[str, int]
    """How often each thing was done to the cluster."""
    epoch_changes: int
    """By which a client gave up knowing what it had sent before."""
    renumbered: int
    """Records that were under way then, and may be there once more for each."""
    excused: Mapping[str, int]
    """By producer: records that are there more than once, and not held against the cluster."""
    longest_recovery_s: float
    """From the end of a fault until every replica was in sync."""
    longest_gap_s: float
    """Between two acknowledgements of one partition, to whomever."""
    longest_gap_s_of: Mapping[str, float]
    """The same, to one producer."""
    longest_gap_s_at: Mapping[str, float]
    """The same, by what had been done last when it ended."""
    longest_stall_s: float
    """For how long this machine let nobody work, the test included."""
    transactions: TransactionFigures
    tracebacks: int
    """In the logs of the nodes."""
    missing: Sequence[str]
    """What this machine did not allow."""


def outcomes(history: History) -> dict[str, int]:
    counted = {"sent": 0, "acknowledged": history.acknowledged, "refused": 0, "unknown": 0}
    for sends in history.sends.values():
        counted["sent"] += len(sends)
        counted["refused"] += sends.outcomes.count(REFUSED)
        counted["unknown"] += sends.outcomes.count(OPEN)
    return counted


def longest_gap_s(history: History, producer: int | None = None) -> float:
    """Of all partitions; between the first and the last acknowledgement of each."""
    gaps = (
        later - one for partition in range(history.partitions) for one, later in _gaps(history, partition, producer)
    )
    return max(gaps, default=0.0)


def longest_gaps_s(history: History, done_at_s: Sequence[tuple[float, str]]) -> dict[str, float]:
    """By what had been done last when the gap ended; `done_at_s` in the order of time."""
    longest: dict[str, float] = {}
    moments = [at_s for at_s, _ in done_at_s]
    for partition in range(history.partitions):
        for one, later in _gaps(history, partition, None):
            if place := bisect_left(moments, later):
                what = done_at_s[place - 1][1]
                longest[what] = max(longest.get(what, 0.0), later - one)
    return dict(sorted(longest.items(), key=lambda item: -item[1]))


def _gaps(history: History, partition: int, producer: int | None) -> Iterable[tuple[float, float]]:
    """Every two acknowledgements of which one follows the other."""
    times: list[float] = []
    for (number, of_partition), sends in history.sends.items():
        if of_partition == partition and producer in (None, number):
            ends = zip(sends.outcomes, sends.ended_at_s, strict=True)
            times += [ended_at_s for outcome, ended_at_s in ends if outcome >= 0]
    times.sort()
    return pairwise(times)


def as_json(figures: Figures, anomalies: Sequence[Anomaly]) -> str:
    return json.dumps({**asdict(figures), "anomalies": [str(anomaly) for anomaly in anomalies]}, indent=2)


def as_table(figures: Figures, anomalies: Sequence[Anomaly]) -> str:
    rows: list[tuple[str, str]] = [
        ("seed", str(figures.seed)),
        ("duration", f"{figures.seconds / 60:.1f} min"),
        ("records sent", f"{figures.sent:,}"),
        ("  acknowledged", f"{figures.acknowledged:,}"),
        ("  refused", f"{figures.refused:,}"),
        ("  of unknown outcome", f"{figures.unknown:,}"),
        ("epochs changed by clients", f"{figures.epoch_changes:,}"),
        ("  records under way then", f"{figures.renumbered:,}"),
        ("records repeated by clients", f"{sum(figures.excused.values()):,}"),
        *((f"  of {name}", f"{count:,}") for name, count in figures.excused.items()),
        ("records read under faults", f"{figures.read_by_consumers:,}"),
        ("records read in the end", f"{figures.read_finally:,}"),
        *transactions.rows(figures.transactions),
        *((name, f"{count:,}") for name, count in figures.strikes.items()),
        ("longest recovery", f"{figures.longest_recovery_s:.1f} s"),
        ("longest gap of acknowledgements", f"{figures.longest_gap_s:.2f} s"),
        *((f"  to {name}", f"{gap_s:.2f} s") for name, gap_s in figures.longest_gap_s_of.items()),
        *((f"  at: {what}", f"{gap_s:.2f} s") for what, gap_s in figures.longest_gap_s_at.items()),
        ("longest stall of the machine", f"{figures.longest_stall_s:.2f} s"),
        ("tracebacks in logs", str(figures.tracebacks)),
        *(("not done", what) for what in figures.missing),
        ("anomalies", str(len(anomalies))),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


def shown(anomalies: Sequence[Anomaly]) -> str:
    """The first of each kind before the rest: one kind of anomaly often has thousands of records."""
    by_kind: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies:
        by_kind.setdefault(anomaly.kind, []).append(anomaly)
    lines = []
    for kind, found in by_kind.items():
        lines += [str(anomaly) for anomaly in found[:_ANOMALIES_SHOWN]]
        if len(found) > _ANOMALIES_SHOWN:
            lines.append(f"{kind}: and {len(found) - _ANOMALIES_SHOWN:,} more")
    return "\n".join(lines)
