"""Partitions by brokers: where each lies, who leads it, and who is behind."""

from collections.abc import Sequence
from enum import StrEnum

from odradek.base.ids import TopicPartition
from odradek.client.layout import PartitionLayout
from odradek.client.reassignment_plan import PlannedReassignment
from odradek.client.reassignment_progress import Progress, ReassignmentState
from odradek.client.reassignments import Reassignment
from odradek.console.inquiries.partitions import ReplicaStates
from odradek.console.readings.heat import Heat, heat_of, reason_of
from odradek.console.readings.sight import Sight
from odradek.console.readings.table import Cell, Column, Page, Row, Tone, counted, inert, link_to, page_of
from odradek.console.readings.topics import partition_state
from odradek.text.amounts import format_bytes
from odradek.text.times import format_span

ELECT = "Elect leader"
REASSIGN = "Reassign"
CANCEL = "Cancel reassignment"

MOVE_COLUMNS = (
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


def map_columns(sight: Sight) -> list[Column]:
    brokers = sorted(sight.members.keys() | {one for layout in sight.partitions.values() for one in layout.replicas})
    return [
        Column("partition", "Partition"),
        Column("state", "State"),
        *(Column(f"broker-{broker}", f"Broker {broker}") for broker in brokers),
        Column("written", "Written/s"),
    ]


def map_page(
    sight: Sight,
    *,
    search: str,
    only_ailing: bool,
    page: int,
    order: Order = Order.NAME,
    near: ReplicaStates = UNKNOWN,
) -> Page[Row]:
    """`near`: what is known of the replicas that are shown; it comes later than the rest."""
    heat = heat_of(sight)
    part = shown_partitions(sight, heat, search=search, only_ailing=only_ailing, page=page, order=order)
    moving = {move.partition: move for move in sight.moves}
    columns = map_columns(sight)[2:-1]
    rows = [_row(sight, heat, near, name, layout, moving.get(name), columns) for name, layout in part.items]
    return Page(items=rows, number=part.number, count=part.count, total=part.total)


def shown_partitions(
    sight: Sight, heat: Heat, *, search: str, only_ailing: bool, page: int, order: Order
) -> Page[tuple[TopicPartition, PartitionLayout]]:
    wanted = search.strip().lower()
    found = [
        (name, layout)
        for name, layout in sorted(sight.partitions.items())
        if wanted in name.topic.lower() and (not only_ailing or is_ailing(layout))
    ]
    if order is Order.HEAT:
        found.sort(key=lambda item: (-heat.written.get(item[0], 0.0), item[0]))
    return page_of(found, page)


def is_ailing(layout: PartitionLayout) -> bool:
    """Something is missing, or somebody leads who was not meant to."""
    return layout.leader != layout.replicas[0] or len(layout.isr) < len(layout.replicas)


def move_rows(moves: Sequence[PlannedReassignment]) -> list[Row]:
    return [
        Row(
            str(move.partition),
            {
                "partition": inert(str(move.partition)),
                "from": _brokers(move.before),
                "to": _brokers(move.after),
                "bytes": format_bytes(move.bytes_to_copy),
            },
        )
        for move in moves
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
        return f"No reassignments in progress: {counted(seen.partition_count, 'partition')} completed or cancelled."
    line = (
        f"{seen.completed_count:,} of {counted(seen.partition_count, 'partition')} completed,"
        f" {format_bytes(seen.copied_bytes)} of {format_bytes(seen.total_bytes)} copied"
    )
    if seen.bytes_per_s is not None:
        line += f", {format_bytes(seen.bytes_per_s)}/s"
    left_s = seen.seconds_left
    return f"{line}, {format_span(int(left_s * 1000))} left." if left_s is not None else f"{line}, not progressing."


def cost_sentence(moves: Sequence[PlannedReassignment], throttle: int | None) -> str:
    copied = sum(move.bytes_to_copy for move in moves)
    line = f"Reassigns {counted(len(moves), 'partition')}: {format_bytes(copied)} to copy"
    if throttle is not None:
        line += f", {format_span(copied * 1000 // throttle)} at {format_bytes(throttle)}/s"
    return line + "."


def _row(
    sight: Sight,
    heat: Heat,
    near: ReplicaStates,
    name: TopicPartition,
    layout: PartitionLayout,
    moving: Reassignment | None,
    columns: Sequence[Column],
) -> Row:
    cells: dict[str, Cell | str] = {
        "partition": Cell(inert(str(name)), link_to("topics", name.topic)),
        "state": Cell("reassigning", tone=Tone.WARNING) if moving else _state(sight, name, layout),
    }
    for column in columns:
        broker = int(column.name.removeprefix("broker-"))
        cells[column.name] = _replica(sight, near, name, layout, moving, broker)
    cells["written"] = _written(sight, heat, name)
    actions = [REASSIGN] if moving is None else [CANCEL]
    if layout.leader != layout.replicas[0] and layout.replicas[0] in layout.isr:
        actions.insert(0, ELECT)
    return Row(str(name), cells, tuple(actions))


def _state(sight: Sight, name: TopicPartition, layout: PartitionLayout) -> Cell:
    state = partition_state(layout, sight.needed_in_sync(name.topic, layout))
    if state.tone is Tone.GOOD and layout.leader != layout.replicas[0]:
        return Cell(f"led by {layout.leader} instead of {layout.replicas[0]}", tone=Tone.WARNING)
    return state


def _written(sight: Sight, heat: Heat, name: TopicPartition) -> Cell | str:
    if not sight.traffic.rates:
        return "unknown"
    told = format_bytes(heat.written.get(name, 0.0))
    return Cell(f"hot: {told}, {reason_of(sight, heat, name)}", tone=Tone.WARNING) if heat.is_hot(name) else told


def _replica(
    sight: Sight,
    near: ReplicaStates,
    name: TopicPartition,
    layout: PartitionLayout,
    moving: Reassignment | None,
    broker: int,
) -> Cell | str:
    if broker not in layout.replicas:
        return ""
    size = sight.sizes.get(broker, {}).get(name)
    behind = near.behind(name, layout.leader, broker)
    told = f", {format_bytes(size)}" if size is not None else ""
    told += f", lag {behind:,}" if behind else ""
    if layout.leader == broker:
        return Cell(f"leader{told}", tone=Tone.GOOD)
    if moving is not None and broker in moving.adding:
        return Cell(f"adding{told}", tone=Tone.WARNING)
    if broker in layout.isr:
        return f"in sync{told}"
    eligible = near.eligible.get(name)
    if eligible is not None and broker in eligible.leaders:
        told += ", eligible leader (ELR)"
    elif eligible is not None and broker in eligible.last_known:
        told += ", last known ELR"
    return Cell(f"{'down' if broker in sight.down else 'behind'}{told}", tone=Tone.BAD)


def _brokers(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
