"""Once healed, every broker knows all the others, and says the same of the cluster."""

from collections.abc import Iterable, Sequence

from odradek.sim.history import ClusterView


def disagreement(views: Sequence[ClusterView], broker_ids: Iterable[int]) -> str | None:
    """What is not as it should be in a round of questions that were asked while nothing changed; None: all is well."""
    for broker_id in broker_ids:
        for view in views:
            # Brokers that are fenced are not told of.
            if f"broker {broker_id}" not in view.facts:
                return f"{view.broker} does not know broker {broker_id}"
    return next(filter(None, (_first_difference(views[0], view) for view in views[1:])), None)


def _first_difference(one: ClusterView, other: ClusterView) -> str | None:
    for name in sorted({*one.facts, *other.facts}):
        if one.facts.get(name) != other.facts.get(name):
            return f"{name}: {one.facts.get(name)} at {one.broker}, {other.facts.get(name)} at {other.broker}"
    return None
