"""Rows for brokers: state, load and skew."""

from odradek.client.layout import PartitionLayout
from odradek.client.placement import spread
from odradek.client.traffic import Rates
from odradek.console.readings.health import clock_time
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import Cell, Column, Row, Tone, format_count, inert, link_to
from odradek.text.amounts import format_bytes

UNREGISTER = "Unregister"
DRAIN = "Drain"

COLUMNS = (
    Column("broker", "Broker"),
    Column("state", "State"),
    Column("roles", "Roles"),
    Column("address", "Address"),
    Column("rack", "Rack"),
    Column("leaders", "Leaders", is_number=True),
    Column("replicas", "Replicas", is_number=True),
    Column("disk", "Stored", is_number=True),
    Column("bytes_in", "Bytes in/s", is_number=True),
    Column("bytes_out", "Bytes out/s", is_number=True),
)

DISK_COLUMNS = (
    Column("path", "Log dir"),
    Column("state", "State"),
    Column("stored", "Stored", is_number=True),
    Column("free", "Free", is_number=True),
    Column("total", "Disk", is_number=True),
)

HOSTED_COLUMNS = (
    Column("partition", "Partition"),
    Column("role", "Role"),
    Column("size", "Size", is_number=True),
    Column("bytes_in", "Bytes in/s", is_number=True),
)


def broker_rows(snapshot: ClusterSnapshot) -> list[Row]:
    """Includes unregistered brokers that still have assigned replicas."""
    leaders, replicas = _count_leaders_and_replicas(snapshot)
    return [
        _row(snapshot, broker, leaders.get(broker, 0), replicas.get(broker, 0))
        for broker in sorted(snapshot.members.keys() | replicas.keys())
    ]


def skew_sentence(snapshot: ClusterSnapshot) -> str:
    leaders, replicas = _count_leaders_and_replicas(snapshot)
    online = sorted(snapshot.reachable)
    if len(online) < 2:
        return ""
    stored = [sum(snapshot.sizes.get(broker, {}).values()) for broker in online]
    return (
        "Difference between the most and the least loaded broker: "
        f"{format_count(spread([leaders.get(one, 0) for one in online]), 'leader')}, "
        f"{format_count(spread([replicas.get(one, 0) for one in online]), 'replica')}, {format_bytes(spread(stored))}."
    )


def disk_rows(snapshot: ClusterSnapshot, broker: int) -> list[Row]:
    return [
        Row(
            one.path,
            {
                "path": inert(one.path),
                "state": Cell("failed", tone=Tone.BAD) if one.has_failed else Cell("online", tone=Tone.GOOD),
                "stored": format_bytes(sum(one.sizes.values())),
                "free": _bytes(one.usable_bytes),
                "total": _bytes(one.total_bytes),
            },
        )
        for one in snapshot.disks.get(broker, ())
    ]


def hosted_rows(snapshot: ClusterSnapshot, broker: int) -> list[Row]:
    """The largest first."""
    sizes = snapshot.sizes.get(broker, {})
    rates = snapshot.traffic.rates.get(broker, {})
    hosted = [(name, layout) for name, layout in snapshot.partitions.items() if broker in layout.replicas]
    hosted.sort(key=lambda item: (-sizes.get(item[0], 0), item[0]))
    return [
        Row(
            str(name),
            {
                "partition": Cell(inert(str(name)), link_to("topics", name.topic)),
                "role": role_of(broker, layout),
                "size": format_bytes(sizes[name]) if name in sizes else "unknown",
                "bytes_in": format_bytes(rates[name].bytes_in) if name in rates else "0 B",
            },
        )
        for name, layout in hosted
    ]


def role_of(broker: int, layout: PartitionLayout) -> Cell:
    if layout.leader == broker:
        return Cell("leader")
    if broker in layout.isr:
        return Cell("in sync")
    return Cell("out of sync", tone=Tone.WARNING)


def state_of(snapshot: ClusterSnapshot, broker: int) -> Cell:
    if broker not in snapshot.members:
        return Cell("not registered", tone=Tone.BAD)
    if broker in snapshot.down:
        since = snapshot.down_since_ms.get(broker)
        return Cell("fenced" + (f" since {clock_time(since)}" if since else ""), tone=Tone.BAD)
    if broker in snapshot.unresponsive_since_ms:
        return Cell(f"unresponsive since {clock_time(snapshot.unresponsive_since_ms[broker])}", tone=Tone.BAD)
    return Cell("online", tone=Tone.GOOD)


def _row(snapshot: ClusterSnapshot, broker: int, leaders: int, replicas: int) -> Row:
    member = snapshot.members.get(broker)
    sizes = snapshot.sizes.get(broker)
    rates = snapshot.traffic.rates.get(broker)
    total = sum(rates.values(), start=Rates()) if rates is not None else None
    may_go = member is not None and member.is_fenced
    return Row(
        str(broker),
        {
            "broker": Cell(f"Broker {broker}", link_to("brokers", broker)),
            "state": state_of(snapshot, broker),
            "roles": _roles(snapshot, broker),
            "address": inert(str(member.address)) if member else "",
            "rack": inert(member.rack) if member and member.rack else "none",
            "leaders": f"{leaders:,}",
            "replicas": f"{replicas:,}",
            "disk": "unknown" if sizes is None else format_bytes(sum(sizes.values())),
            "bytes_in": "unknown" if total is None else format_bytes(total.bytes_in),
            "bytes_out": "unknown" if total is None else format_bytes(total.bytes_out),
        },
        (*((DRAIN,) if replicas else ()), *((UNREGISTER,) if may_go else ())),
    )


def _roles(snapshot: ClusterSnapshot, broker: int) -> str:
    if snapshot.quorum is None or broker not in {voter.id for voter in snapshot.quorum.voters}:
        return "broker"
    return "broker, active controller" if snapshot.quorum.leader_id == broker else "broker, controller"


def _count_leaders_and_replicas(snapshot: ClusterSnapshot) -> tuple[dict[int, int], dict[int, int]]:
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for layout in snapshot.partitions.values():
        leaders[layout.leader] = leaders.get(layout.leader, 0) + 1
        for broker in layout.replicas:
            replicas[broker] = replicas.get(broker, 0) + 1
    return leaders, replicas


def _bytes(amount: int | None) -> str:
    return "unknown" if amount is None else format_bytes(amount)


def heading_of(snapshot: ClusterSnapshot, broker: int) -> str:
    hosted = sum(broker in layout.replicas for layout in snapshot.partitions.values())
    return f"{_roles(snapshot, broker)}; {format_count(hosted, 'replica')}"
