"""The figures of a run's transactions, and their rows in the table."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.transactions.history import Outcome, TransactionHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFigures:
    begun: int
    committed: int
    aborted: int
    unknown: int
    replaced: int
    """Producers replaced after a fatal error, not counting those abandoned on purpose."""
    hung: int
    """Producers replaced because a call of the client library did not return."""
    read_by_consumers: int
    read_finally: int
    """Records of the ledger; there are as many copies."""
    copied: int
    longest_gap_s_of: Mapping[str, float]
    """Longest gap between two commits, by writer."""


def figures(history: TransactionHistory) -> TransactionFigures:
    outcomes = Counter(one.outcome for transactions in history.transactions for one in transactions)
    return TransactionFigures(
        begun=outcomes.total(),
        committed=outcomes[Outcome.COMMITTED],
        aborted=outcomes[Outcome.ABORTED],
        unknown=outcomes[Outcome.UNKNOWN],
        replaced=history.replaced,
        hung=history.hung,
        read_by_consumers=sum(len(reads) for reads in history.reads.values()),
        read_finally=sum(len(history.final[place]) for place in history.ledger),
        copied=sum(len(history.final[history.copy_of(place)]) for place in history.ledger),
        longest_gap_s_of={name: _longest_gap_s(history, number) for number, name in enumerate(history.writers)},
    )


def _longest_gap_s(history: TransactionHistory, writer: int) -> float:
    """The longest gap between two commits of one writer."""
    ends = [one.ended_at_s for one in history.transactions[writer] if one.outcome is Outcome.COMMITTED]
    return max((later - one for one, later in pairwise(ends)), default=0.0)


def rows(figures: TransactionFigures) -> list[tuple[str, str]]:
    return [
        ("transactions begun", f"{figures.begun:,}"),
        ("  committed", f"{figures.committed:,}"),
        ("  aborted", f"{figures.aborted:,}"),
        ("  unknown outcome", f"{figures.unknown:,}"),
        ("  producers replaced", f"{figures.replaced:,}"),
        ("    because a call did not return", f"{figures.hung:,}"),
        ("committed records read during faults", f"{figures.read_by_consumers:,}"),
        ("committed records at the end", f"{figures.read_finally:,}"),
        ("  copied", f"{figures.copied:,}"),
        *(
            (f"longest gap between commits of {name}", f"{gap_s:.2f} s")
            for name, gap_s in figures.longest_gap_s_of.items()
        ),
    ]
