"""Rows for partitions: replicas by broker, leaders and lagging replicas."""

from collections.abc import Sequence
from enum import StrEnum

from odradek.base.ids import TopicPartition
from odradek.client.layout import PartitionLayout
from odradek.client.reassignment_plan import PlannedReassignment
from odradek.client.reassignment_progress import Progress, ReassignmentState
from odradek.client.reassignments import Reassignment
from odradek.console.queries.partitions import ReplicaStates
from odradek.console.readings.heat import Heat, heat_of, reason_of
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import Cell, Column, Page, Row, Tone, format_count, inert, link_to, page_of
from odradek.console.readings.topics import partition_state
from odradek.text.amounts import format_bytes
from odradek.text.times import format_span

ELECT = "Elect leader"
REASSIGN = "Reassign"
CANCEL = "Cancel reassignment"

REASSIGNMENT_COLUMNS = (
    Column("partition", "Partition"),
    Column("from", "From"),
    Column("to", "To"),
    Column("bytes", "To copy", is_number=True),
)

PROGRESS_COLUMNS = (
    Column("partition", "Partition"),
    Column("to", "To"),
    Column("adding", "Coming"),
    Column("removing", "Going"),
    Column("copied", "Copied", is_number=True),
    Column("total", "Of", is_number=True),
    Column("percent", "Done", is_number=True),
)


UNKNOWN = ReplicaStates()


class Order(StrEnum):
    NAME = "name"
    HEAT = "heat"


def map_columns(snapshot: ClusterSnapshot) -> list[Column]:
    brokers = sorted(
        snapshot.members.keys() | {one for layout in snapshot.partitions.values() for one in layout.replicas}
    )
    return [
        Column("partition", "Partition"),
        Column("state", "State"),
        *(Column(f"broker-{broker}", f"Broker {broker}") for broker in brokers),
        Column("written", "Written/s"),
    ]


def map_page(
    snapshot: ClusterSnapshot,
    *,
    search: str,
    only_problems: bool,
    page: int,
    order: Order = Order.NAME,
    near: ReplicaStates = UNKNOWN,
) -> Page[Row]:
    """`near` is the state of the displayed replicas, which loads after the rest."""
    heat = heat_of(snapshot)
    part = shown_partitions(snapshot, heat, search=search, only_problems=only_problems, page=page, order=order)
    reassigning = {reassignment.partition: reassignment for reassignment in snapshot.reassignments}
    columns = map_columns(snapshot)[2:-1]
    rows = [_row(snapshot, heat, near, name, layout, reassigning.get(name), columns) for name, layout in part.items]
    return Page(items=rows, number=part.number, count=part.count, total=part.total)


def shown_partitions(
    snapshot: ClusterSnapshot, heat: Heat, *, search: str, only_problems: bool, page: int, order: Order
) -> Page[tuple[TopicPartition, PartitionLayout]]:
    wanted = search.strip().lower()
    found = [
        (name, layout)
        for name, layout in sorted(snapshot.partitions.items())
        if wanted in name.topic.lower() and (not only_problems or has_problem(layout))
    ]
    if order is Order.HEAT:
        found.sort(key=lambda item: (-heat.written.get(item[0], 0.0), item[0]))
    return page_of(found, page)


def has_problem(layout: PartitionLayout) -> bool:
    """Returns whether a replica is out of sync or the leader is not the preferred one."""
    return layout.leader != layout.replicas[0] or len(layout.isr) < len(layout.replicas)


def reassignment_rows(reassignments: Sequence[PlannedReassignment]) -> list[Row]:
    return [
        Row(
            str(reassignment.partition),
            {
                "partition": inert(str(reassignment.partition)),
                "from": _brokers(reassignment.before),
                "to": _brokers(reassignment.after),
                "bytes": format_bytes(reassignment.bytes_to_copy),
            },
        )
        for reassignment in reassignments
    ]


def progress_rows(states: Sequence[ReassignmentState]) -> list[Row]:
    return [
        Row(
            str(state.reassignment.partition),
            {
                "partition": Cell(
                    inert(str(state.reassignment.partition)), link_to("topics", state.reassignment.partition.topic)
                ),
                "to": _brokers(state.reassignment.target),
                "adding": _brokers(state.reassignment.adding),
                "removing": _brokers(state.reassignment.removing),
                "copied": format_bytes(state.copied_bytes),
                "total": format_bytes(state.total_bytes),
                "percent": f"{100 * state.copied_bytes // state.total_bytes if state.total_bytes else 0} %",
            },
            (CANCEL,),
        )
        for state in states
    ]


def progress_sentence(seen: Progress) -> str:
    if not seen.partition_count:
        return "No reassignments in progress."
    if not seen.states:
        count = format_count(seen.partition_count, "partition")
        return f"No reassignments in progress: {count} completed or cancelled."
    line = (
        f"{seen.completed_count:,} of {format_count(seen.partition_count, 'partition')} completed,"
        f" {format_bytes(seen.copied_bytes)} of {format_bytes(seen.total_bytes)} copied"
    )
    if seen.bytes_per_s is not None:
        line += f", {format_bytes(seen.bytes_per_s)}/s"
    left_s = seen.seconds_left
    return f"{line}, {format_span(int(left_s * 1000))} left." if left_s is not None else f"{line}, not progressing."


def cost_sentence(reassignments: Sequence[PlannedReassignment], throttle: int | None) -> str:
    copied = sum(reassignment.bytes_to_copy for reassignment in reassignments)
    line = f"Reassigns {format_count(len(reassignments), 'partition')}: {format_bytes(copied)} to copy"
    if throttle is not None:
        line += f", {format_span(copied * 1000 // throttle)} at {format_bytes(throttle)}/s"
    return line + "."


def _row(
    snapshot: ClusterSnapshot,
    heat: Heat,
    near: ReplicaStates,
    name: TopicPartition,
    layout: PartitionLayout,
    reassigning: Reassignment | None,
    columns: Sequence[Column],
) -> Row:
    cells: dict[str, Cell | str] = {
        "partition": Cell(inert(str(name)), link_to("topics", name.topic)),
        "state": Cell("reassigning", tone=Tone.WARNING) if reassigning else _state(snapshot, name, layout),
    }
    for column in columns:
        broker = int(column.name.removeprefix("broker-"))
        cells[column.name] = _replica(snapshot, near, name, layout, reassigning, broker)
    cells["written"] = _write_rate_cell(snapshot, heat, name)
    actions = [REASSIGN] if reassigning is None else [CANCEL]
    if layout.leader != layout.replicas[0] and layout.replicas[0] in layout.isr:
        actions.insert(0, ELECT)
    return Row(str(name), cells, tuple(actions))


def _state(snapshot: ClusterSnapshot, name: TopicPartition, layout: PartitionLayout) -> Cell:
    state = partition_state(layout, snapshot.needed_in_sync(name.topic, layout))
    if state.tone is Tone.GOOD and layout.leader != layout.replicas[0]:
        return Cell(f"led by {layout.leader} instead of {layout.replicas[0]}", tone=Tone.WARNING)
    return state


def _write_rate_cell(snapshot: ClusterSnapshot, heat: Heat, name: TopicPartition) -> Cell | str:
    if not snapshot.traffic.rates:
        return "unknown"
    text = format_bytes(heat.written.get(name, 0.0))
    return Cell(f"hot: {text}, {reason_of(snapshot, heat, name)}", tone=Tone.WARNING) if heat.is_hot(name) else text


def _replica(
    snapshot: ClusterSnapshot,
    near: ReplicaStates,
    name: TopicPartition,
    layout: PartitionLayout,
    reassigning: Reassignment | None,
    broker: int,
) -> Cell | str:
    if broker not in layout.replicas:
        return ""
    size = snapshot.sizes.get(broker, {}).get(name)
    behind = near.behind(name, layout.leader, broker)
    text = f", {format_bytes(size)}" if size is not None else ""
    text += f", lag {behind:,}" if behind else ""
    if layout.leader == broker:
        return Cell(f"leader{text}", tone=Tone.GOOD)
    if reassigning is not None and broker in reassigning.adding:
        return Cell(f"adding{text}", tone=Tone.WARNING)
    if broker in layout.isr:
        return f"in sync{text}"
    eligible = near.eligible.get(name)
    if eligible is not None and broker in eligible.leaders:
        text += ", eligible leader (ELR)"
    elif eligible is not None and broker in eligible.last_known:
        text += ", last known ELR"
    return Cell(f"{'down' if broker in snapshot.down else 'behind'}{text}", tone=Tone.BAD)


def _brokers(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
