"""Topic changes compared with the committed log: acknowledged and visible changes are in it.

Admin clients never use a value twice, so that a value identifies its change.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from odradek.sim.checkers.violation import Violation
from odradek.sim.history import Change, ChangeKind, History, Outcome

ACKNOWLEDGED: Final = "acknowledged metadata changes are committed"
SHOWN: Final = "brokers serve only committed metadata"
_WITH_VALUE: Final = frozenset({ChangeKind.CREATE, ChangeKind.CONFIGURE})


def check_committed_metadata(history: History) -> Iterator[Violation]:
    """For a run whose committed batches were all recorded."""
    if not history.quorum.is_complete:
        return
    committed: dict[str, set[str]] = defaultdict(set)
    for one in history.quorum.committed:
        for state in one.topics:
            if state.value is not None:
                committed[state.topic].add(state.value)
    requested: dict[str, set[str]] = defaultdict(set)
    for step in history.changes:
        if isinstance(step, Change) and step.kind in _WITH_VALUE:
            requested[step.topic].add(step.value)
            if step.outcome is Outcome.DONE and step.value not in committed[step.topic]:
                assert step.ended is not None
                yield Violation(ACKNOWLEDGED, f"{step} was acknowledged, and is not in the log", step.ended)
    for step in history.changes:
        if isinstance(step, Change) or step.value is None:
            continue
        if step.value in requested[step.topic] and step.value not in committed[step.topic]:
            yield Violation(SHOWN, f"a client sees {step}, which is not in the log", step.ended)
