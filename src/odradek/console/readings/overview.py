"""Rows for the overview: cluster figures with links to details."""

from odradek.client.traffic import Rates
from odradek.console.readings.health import partition_problems
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import Cell, Column, Row, Tone, format_count, format_list, inert, link_to
from odradek.text.amounts import format_bytes

COLUMNS = (Column("what", "Metric"), Column("value", "Value"), Column("detail", "Details"))


def overview_rows(snapshot: ClusterSnapshot) -> list[Row]:
    problems = partition_problems(snapshot)
    rates = sum((rate for held in snapshot.traffic.rates.values() for rate in held.values()), start=Rates())
    stored = [size for held in snapshot.sizes.values() for size in held.values()]
    online = len(snapshot.members) - len(snapshot.down)
    down = f"down: {format_list(snapshot.down)}" if snapshot.down else ""
    rows = [
        _row("brokers", "Brokers online", f"{online} of {len(snapshot.members)}", down, link_to("brokers"), bool(down)),
        _row("controller", "Active controller", *_controller(snapshot), link_to("quorum")),
        _row("topics", "Topics", f"{len(snapshot.topics):,}", _internal(snapshot), link_to("topics")),
        _row("partitions", "Partitions", f"{len(snapshot.partitions):,}", "", link_to("partitions")),
        _row("offline", "Offline partitions", *_count_and_names(problems.offline), is_bad=bool(problems.offline)),
        _row(
            "min-isr",
            "Below min.insync.replicas",
            *_count_and_names(problems.under_min_isr),
            is_bad=bool(problems.under_min_isr),
        ),
        _row(
            "under-replicated",
            "Under-replicated partitions",
            *_count_and_names(problems.under_replicated),
            is_bad=bool(problems.under_replicated),
        ),
        _row("moves", "Partitions being reassigned", f"{len(snapshot.reassignments):,}", "", link_to("reassignments")),
        _row("stored", "Stored, including replicas", format_bytes(sum(stored)), _unknown_disks(snapshot)),
        _row("bytes-in", "Bytes in", *_rate(snapshot, rates.bytes_in)),
        _row("bytes-out", "Bytes out", *_rate(snapshot, rates.bytes_out)),
        _row("cluster-id", "Cluster ID", inert(snapshot.cluster_id)),
    ]
    rows += [
        _row(f"feature-{name}", inert(name), str(level), "finalized feature")
        for name, level in sorted(snapshot.features.items())
    ]
    return rows


def _row(key: str, what: str, value: str, detail: str = "", link: str | None = None, is_bad: bool = False) -> Row:
    tone = Tone.BAD if is_bad else None
    return Row(key, {"what": what, "value": Cell(value, link, tone), "detail": inert(detail)})


def _controller(snapshot: ClusterSnapshot) -> tuple[str, str]:
    if snapshot.quorum is None:
        return "unknown", "this cluster does not describe its quorum"
    voters = sorted(voter.id for voter in snapshot.quorum.voters)
    leader = "none" if snapshot.quorum.leader_id < 0 else f"node {snapshot.quorum.leader_id}"
    return leader, f"epoch {snapshot.quorum.leader_epoch}, {format_count(len(voters), 'voter')}: {format_list(voters)}"


def _internal(snapshot: ClusterSnapshot) -> str:
    internal = sum(topic.is_internal for topic in snapshot.topics.values())
    return f"{internal} internal" if internal else ""


def _count_and_names(partitions: tuple[object, ...]) -> tuple[str, str]:
    return f"{len(partitions):,}", format_list(partitions, 3)


def _unknown_disks(snapshot: ClusterSnapshot) -> str:
    unknown = sorted(snapshot.reachable - snapshot.disks.keys())
    return f"excluding brokers {format_list(unknown)}, which did not respond" if unknown else ""


def _rate(snapshot: ClusterSnapshot, bytes_per_s: float) -> tuple[str, str]:
    """Brokers report traffic only over HTTP."""
    if not snapshot.traffic.unavailable:
        return f"{format_bytes(bytes_per_s)}/s", ""
    broker, reason = min(snapshot.traffic.unavailable.items())
    if not snapshot.traffic.rates:
        return "unknown", f"broker {broker}: {reason}"
    return (
        f"{format_bytes(bytes_per_s)}/s",
        f"excluding brokers {format_list(sorted(snapshot.traffic.unavailable))}: {reason}",
    )
