"""`odradek reassign`: move partitions between brokers: plan it, look at what it costs, do it, watch it, call it off."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.cli.reassignment_file import read_plan, write_plan
from odradek.cli.reassignment_status import show_status
from odradek.client.cluster import Cluster
from odradek.client.explain import explain_refusal
from odradek.client.placement import PlacedPartition, Skew, loads_of, skew_of
from odradek.client.reassignment_plan import CannotPlan, Move, Purpose, plan_moves
from odradek.client.reassignments import Reassignment, Reassignments
from odradek.client.survey import Survey, survey
from odradek.client.throttles import ReplicationThrottles
from odradek.text.amounts import format_bytes
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.progress import progress
from odradek.text.terminal import is_terminal, say
from odradek.text.times import format_span

app = typer.Typer(help="Move partitions between brokers: plan, apply, watch, cancel.", no_args_is_help=True)

Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this one; may be repeated.")
]
PreserveThrottles = Annotated[
    bool, typer.Option("--preserve-throttles", help="Leave replication throttles as they are.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def plan(
    add_broker: Annotated[
        list[str] | None,
        typer.Option("--add-broker", metavar="ID[,…]", help="Give these brokers their share; nothing else moves."),
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", metavar="ID[,…]", help="Leave nothing on these brokers, dead ones included."),
    ] = None,
    even: Annotated[
        bool, typer.Option("--even", help="Even out replicas, bytes and leaders, and keep racks apart.")
    ] = False,
    topic: Topics = None,
    throttle: Annotated[
        int | None, typer.Option("--throttle", min=1, metavar="BYTES/S", help="Show how long it takes at this rate.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the plan there.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Propose moves that copy little, and show what they cost. Nothing happens until `odradek reassign apply`."""
    purpose = Purpose(drain=_ids(drain, "--drain"), fill=_ids(add_broker, "--add-broker"), even=even)
    if purpose == Purpose():
        raise UserError("what shall the plan be for? give --drain ID, --add-broker ID or --even")
    if both := purpose.drain & purpose.fill:
        raise UserError(f"broker {min(both)} cannot be drained and filled at once: leave one of them out")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        if topic:
            cluster.retry("looking for topics", lambda: cluster.topics(topic))
        found = _survey(cluster)
        _check_brokers(found, purpose)
        _refuse_while_moving(Reassignments(cluster).ongoing(), None)
    placed = found.placed()
    try:
        with progress("planning", len(placed), unit="partitions"):
            moves = plan_moves(placed, found.racks, found.online, purpose, topics=topic or None)
    except CannotPlan as error:
        raise UserError(f"{error}: add brokers, or drain fewer") from None
    if out is not None and moves:
        write_plan(out, {move.partition: move.after for move in moves})
    before, after = _skews(placed, moves, found.online - purpose.drain)
    if format is OutputFormat.JSON:
        print_json(_plan_as_json(moves, throttle, before, after))
        return
    if not moves:
        say("there is nothing to move")
        return
    _print_moves(moves)
    print_table(
        ("skew of", "now", "then"),
        [
            ("replicas", before.replicas, after.replicas),
            ("leaders", before.leaders, after.leaders),
            ("bytes", format_bytes(before.size_bytes), format_bytes(after.size_bytes)),
        ],
    )
    say(_cost(moves, throttle))
    say(f"`odradek reassign apply {out}` begins it" if out else "--out FILE keeps it for `odradek reassign apply FILE`")


@app.command()
def apply(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="A plan, as `plan --out` writes it.")
    ],
    yes: Yes = False,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", min=1, metavar="BYTES/S", help="Let every broker copy no faster than this."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Begin the moves of a plan, or of a file of kafka-reassign-partitions. Once more changes their --throttle."""
    wanted = read_plan(file)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        moves = _moves_to(wanted, _survey(cluster), file)
        under_way = Reassignments(cluster).ongoing()
        moving = {one.partition: one.target for one in under_way}
        moves = [move for move in moves if moving.get(move.partition) != move.after]
        _refuse_while_moving(under_way, {move.partition for move in moves})
        if moves and format is OutputFormat.TABLE:
            _print_moves(moves)
            say(_cost(moves, throttle))
        if moves and not yes and is_terminal(sys.stdin):
            typer.confirm(f"Move {_counted(len(moves))}?", abort=True, err=True)
        if throttle is not None:
            on_the_way = [_as_move(one) for one in under_way if one.partition in wanted]
            ReplicationThrottles(cluster).limit([*moves, *on_the_way], throttle)
        with progress("beginning", len(moves), unit="partitions") as advance:
            refusals = Reassignments(cluster).begin({move.partition: move.after for move in moves}, on_answer=advance)
    if format is OutputFormat.JSON:
        print_json({"begun": len(moves) - len(refusals), "moves": [_move_as_json(move) for move in moves]})
    _raise_refusals(refusals, len(moves))
    if not moves:
        say("there is nothing to move: it is all there, or on its way")
    else:
        say(f"{_counted(len(moves))} on the way: `odradek reassign status --watch` shows how far they are")


@app.command()
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Until everything has arrived.")] = False,
    preserve_throttles: PreserveThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show what is on its way, how much is copied, and how long the rest will take.

    Once everything has arrived, replication throttles are taken off.
    """
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        is_over = show_status(cluster, watch=watch, as_json=format is OutputFormat.JSON)
        if is_over and not preserve_throttles:
            _clear_throttles(cluster)


@app.command()
def cancel(
    topic: Topics = None,
    yes: Yes = False,
    preserve_throttles: PreserveThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Call moves off that are under way: the partitions go back to where they were."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        if topic:
            cluster.retry("looking for topics", lambda: cluster.topics(topic))
        moves = Reassignments(cluster)
        called_off = [one for one in moves.ongoing() if not topic or one.partition.topic in topic]
        if called_off and not yes and is_terminal(sys.stdin):
            typer.confirm(f"Call off moving {_counted(len(called_off))}?", abort=True, err=True)
        with progress("cancelling", len(called_off), unit="partitions") as advance:
            refusals = moves.cancel([one.partition for one in called_off], on_answer=advance)
        if called_off and not preserve_throttles and not moves.ongoing():
            _clear_throttles(cluster)
    if format is OutputFormat.JSON:
        print_json({"cancelled": [str(one.partition) for one in called_off if one.partition not in refusals]})
    _raise_refusals(refusals, len(called_off))
    say(f"{_counted(len(called_off))}: called off" if called_off else "nothing is being moved")


def _clear_throttles(cluster: Cluster) -> None:
    if ReplicationThrottles(cluster).clear():
        say("replication throttles are taken off")


def _survey(cluster: Cluster) -> Survey:
    with progress("asking brokers for sizes", None, unit="brokers") as advance:
        return survey(cluster, on_answer=advance)


def _ids(texts: Iterable[str] | None, option: str) -> frozenset[int]:
    found = set()
    for text in ",".join(texts or ()).split(","):
        if text.strip():
            if not (text.strip().isascii() and text.strip().isdigit()):
                raise UserError(f"{option} {text.strip()!r} is not the id of a broker")
            found.add(int(text))
    return frozenset(found)


def _check_brokers(found: Survey, purpose: Purpose) -> None:
    holders = {broker for layout in found.partitions.values() for broker in layout.replicas}
    for broker in sorted(purpose.fill - found.online):
        known = ", ".join(map(str, sorted(found.online)))
        raise UserError(f"--add-broker: there is no broker {broker} online: those online are {known}")
    for broker in sorted(purpose.drain - holders - found.members.keys()):
        known = ", ".join(map(str, sorted(found.members)))
        raise UserError(f"--drain: there is no broker {broker}: the brokers are {known}")


def _refuse_while_moving(under_way: Sequence[Reassignment], of: set[TopicPartition] | None) -> None:
    moving = [one.partition for one in under_way if of is None or one.partition in of]
    if moving:
        raise UserError(
            f"{moving[0]} is being moved already: wait (`odradek reassign status --watch`),"
            " or call it off (`odradek reassign cancel`)"
        )


def _moves_to(wanted: Mapping[TopicPartition, tuple[int, ...]], found: Survey, file: Path) -> list[Move]:
    """What of a plan is not so yet."""
    partitions = found.partitions
    moves = []
    for partition, replicas in sorted(wanted.items()):
        layout = partitions.get(partition)
        if layout is None:
            raise UserError(f"{str(file)!r} names {partition}, which is not there: make a new plan")
        for broker in replicas:
            if broker not in found.members:
                raise UserError(
                    f"{str(file)!r} moves {partition} to broker {broker}, which is not there: make a new plan"
                )
        if layout.replicas != replicas:
            size_bytes = found.size_of(partition, layout)
            moves.append(Move(partition=partition, before=layout.replicas, after=replicas, size_bytes=size_bytes))
    return moves


def _as_move(under_way: Reassignment) -> Move:
    before = tuple(broker for broker in under_way.replicas if broker not in under_way.adding)
    return Move(partition=under_way.partition, before=before, after=under_way.target, size_bytes=0)


def _skews(placed: Sequence[PlacedPartition], moves: Sequence[Move], brokers: frozenset[int]) -> tuple[Skew, Skew]:
    after = {move.partition: move.after for move in moves}
    then = [
        PlacedPartition(
            partition=one.partition, replicas=after.get(one.partition, one.replicas), size_bytes=one.size_bytes
        )
        for one in placed
    ]
    now_skew, then_skew = (skew_of(list(loads_of(each, brokers).values())) for each in (placed, then))
    return now_skew, then_skew


def _print_moves(moves: Sequence[Move]) -> None:
    print_table(
        ("partition", "from", "to", "bytes to copy"),
        [(str(move.partition), move.before, move.after, format_bytes(move.bytes_to_copy)) for move in moves],
    )


def _cost(moves: Sequence[Move], throttle: int | None) -> str:
    copied = sum(move.bytes_to_copy for move in moves)
    line = f"{_counted(len(moves))}, {format_bytes(copied)} to copy"
    if throttle is not None:
        line += f", {format_span(copied * 1000 // throttle)} at {format_bytes(throttle)}/s"
    return line


def _plan_as_json(moves: Sequence[Move], throttle: int | None, before: Skew, after: Skew) -> dict[str, Any]:
    copied = sum(move.bytes_to_copy for move in moves)
    return {
        "moves": [_move_as_json(move) for move in moves],
        "bytes_to_copy": copied,
        "seconds_at_throttle": None if throttle is None else copied / throttle,
        "skew": {
            name: {"replicas": skew.replicas, "leaders": skew.leaders, "bytes": skew.size_bytes}
            for name, skew in (("now", before), ("then", after))
        },
    }


def _move_as_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "from": list(move.before),
        "to": list(move.after),
        "bytes_to_copy": move.bytes_to_copy,
    }


def _raise_refusals(refusals: Mapping[TopicPartition, KafkaError], count: int) -> None:
    if refusals:
        partition, error = min(refusals.items())
        raise UserError(f"{len(refusals)} of {_counted(count)} refused; {partition}: {explain_refusal(error)}")


def _counted(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"
