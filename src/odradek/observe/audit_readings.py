"""Metrics of the audit log."""

from collections.abc import Mapping

from odradek.observe.families import Family, Kind, own


def audit_families(written: int | None, dropped: Mapping[str, int]) -> list[Family]:
    """`dropped` is by reason. None: the node has no audit log."""
    return [
        own(
            "audit_events", "Events written to the audit log", Kind.COUNTER, [] if written is None else [({}, written)]
        ),
        own(
            "audit_events_dropped",
            "Events that are missing in the audit log, by reason",
            Kind.COUNTER,
            [({"reason": reason}, count) for reason, count in dropped.items()],
        ),
    ]


async def no_audit_log() -> list[Family]:
    return audit_families(None, {})
