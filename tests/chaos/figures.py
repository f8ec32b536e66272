"""The figures of a run, as a table and as JSON."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

from tests.chaos.checker import Anomaly
from tests.chaos.history import OPEN, REJECTED, History
from tests.chaos.transactions import figures as transactions
from tests.chaos.transactions.figures import TransactionFigures

_ANOMALIES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    seed: int
    seconds: float
    sent: int
    acknowledged: int
    rejected: int
    unknown: int
    read_by_consumers: int
    read_finally: int
    faults: Mapping[str, int]
    """Number of faults by kind."""
    epoch_changes: int
    """Epoch bumps by clients, after which they may send stored records again."""
    renumbered: int
    """Records in flight at an epoch bump, which may be stored once more for each bump."""
    tolerated_duplicates: Mapping[str, int]
    """Number of duplicates, by producer, that a client caused."""
    longest_recovery_s: float
    """From the end of a fault until every replica was in sync again."""
    longest_gap_s: float
    """Between two acknowledgements of one partition, by any producer."""
    longest_gap_s_of: Mapping[str, float]
    """The same, for one producer."""
    longest_gap_s_at: Mapping[str, float]
    """The same, by the last fault before its end."""
    longest_stall_s: float
    """The longest time during which the computer did not run the test process."""
    transactions: TransactionFigures
    tracebacks: int
    """Number of tracebacks in the logs of the nodes."""
    missing: Sequence[str]
    """Faults and clients that this computer does not support."""


def outcomes(history: History) -> dict[str, int]:
    counted = {"sent": 0, "acknowledged": history.acknowledged, "rejected": 0, "unknown": 0}
    for sends in history.sends.values():
        counted["sent"] += len(sends)
        counted["rejected"] += sends.outcomes.count(REJECTED)
        counted["unknown"] += sends.outcomes.count(OPEN)
    return counted


def longest_gap_s(history: History, producer: int | None = None) -> float:
    """The longest gap in any partition, between its first and its last acknowledgement."""
    gaps = (
        later - one for partition in range(history.partitions) for one, later in _gaps(history, partition, producer)
    )
    return max(gaps, default=0.0)


def longest_gaps_s(history: History, fault_times_s: Sequence[tuple[float, str]]) -> dict[str, float]:
    """The longest gaps by the last fault before their end. `fault_times_s` is in time order."""
    longest: dict[str, float] = {}
    moments = [at_s for at_s, _ in fault_times_s]
    for partition in range(history.partitions):
        for one, later in _gaps(history, partition, None):
            if place := bisect_left(moments, later):
                what = fault_times_s[place - 1][1]
                longest[what] = max(longest.get(what, 0.0), later - one)
    return dict(sorted(longest.items(), key=lambda item: -item[1]))


def _gaps(history: History, partition: int, producer: int | None) -> Iterable[tuple[float, float]]:
    """All pairs of successive acknowledgements."""
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
        ("  rejected", f"{figures.rejected:,}"),
        ("  unknown outcome", f"{figures.unknown:,}"),
        ("epochs bumped by clients", f"{figures.epoch_changes:,}"),
        ("  records in flight at that time", f"{figures.renumbered:,}"),
        ("duplicates caused by clients", f"{sum(figures.tolerated_duplicates.values()):,}"),
        *((f"  of {name}", f"{count:,}") for name, count in figures.tolerated_duplicates.items()),
        ("records read during faults", f"{figures.read_by_consumers:,}"),
        ("records read at the end", f"{figures.read_finally:,}"),
        *transactions.rows(figures.transactions),
        *((name, f"{count:,}") for name, count in figures.faults.items()),
        ("longest recovery", f"{figures.longest_recovery_s:.1f} s"),
        ("longest gap between acknowledgements", f"{figures.longest_gap_s:.2f} s"),
        *((f"  to {name}", f"{gap_s:.2f} s") for name, gap_s in figures.longest_gap_s_of.items()),
        *((f"  during: {what}", f"{gap_s:.2f} s") for what, gap_s in figures.longest_gap_s_at.items()),
        ("longest stall of the computer", f"{figures.longest_stall_s:.2f} s"),
        ("tracebacks in logs", str(figures.tracebacks)),
        *(("not supported here", what) for what in figures.missing),
        ("anomalies", str(len(anomalies))),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


def shown(anomalies: Sequence[Anomaly]) -> str:
    """The first anomalies of each kind, because one kind often has thousands of records."""
    by_kind: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies:
        by_kind.setdefault(anomaly.kind, []).append(anomaly)
    lines = []
    for kind, found in by_kind.items():
        lines += [str(anomaly) for anomaly in found[:_ANOMALIES_SHOWN]]
        if len(found) > _ANOMALIES_SHOWN:
            lines.append(f"{kind}: and {len(found) - _ANOMALIES_SHOWN:,} more")
    return "\n".join(lines)
