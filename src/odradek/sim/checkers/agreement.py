"""After the faults end, all brokers know each other and describe the same cluster."""

from collections.abc import Iterable, Sequence

from odradek.sim.history import ClusterView


def disagreement(views: Sequence[ClusterView], broker_ids: Iterable[int]) -> str | None:
    """The first difference between brokers that were queried while nothing changed; None: they agree."""
    for broker_id in broker_ids:
        for view in views:
            # Metadata responses do not list fenced brokers.
            if f"broker {broker_id}" not in view.facts:
                return f"{view.broker} does not know broker {broker_id}"
    return next(filter(None, (_first_difference(views[0], view) for view in views[1:])), None)


def _first_difference(one: ClusterView, other: ClusterView) -> str | None:
    for name in sorted({*one.facts, *other.facts}):
        if one.facts.get(name) != other.facts.get(name):
            return f"{name}: {one.facts.get(name)} at {one.broker}, {other.facts.get(name)} at {other.broker}"
    return None
