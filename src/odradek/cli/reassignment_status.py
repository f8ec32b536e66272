"""How far moves are: a table and an estimate, or a bar until everything has arrived."""

import time
from typing import Any, Final

from odradek.client.cluster import Cluster
from odradek.client.log_dirs import sizes_on
from odradek.client.move_progress import MoveState, Progress, ProgressMeter, state_of
from odradek.client.reassignments import Reassignments
from odradek.text.amounts import format_bytes
from odradek.text.output import print_json, print_table
from odradek.text.progress import gauge
from odradek.text.terminal import say
from odradek.text.times import format_span

# Between two looks: long enough for a rate, short enough for a person.
_INTERVAL_S: Final = 1.0
# How often a watcher without a terminal is told.
_TOLD_EVERY_S: Final = 10.0


def show_status(cluster: Cluster, *, watch: bool, as_json: bool) -> bool:
    """Returns whether nothing is being moved any more."""
    meter = ProgressMeter()
    seen = meter.look(_states(cluster), time.monotonic())
    if watch:
        _watch(cluster, meter, seen, as_json)
        return True
    if seen.states:
        # A rate takes two looks; those that arrive in between are shown as arrived.
        time.sleep(_INTERVAL_S)
        seen = meter.look(_states(cluster), time.monotonic())
    if as_json:
        print_json(_as_json(seen))
    elif not seen.seen_count:
        say("nothing is being moved")
    else:
        _print(seen)
    return not seen.states


def _watch(cluster: Cluster, meter: ProgressMeter, seen: Progress, as_json: bool) -> None:
    told_at = time.monotonic()
    with gauge("moving", wanted=not as_json) as reach:
        while seen.states:
            reach(seen.copied_bytes, seen.total_bytes)
            if as_json:
                print_json(_as_json(seen))
            elif time.monotonic() - told_at >= _TOLD_EVERY_S:
                told_at = time.monotonic()
                say(_line(seen))
            time.sleep(_INTERVAL_S)
            seen = meter.look(_states(cluster), time.monotonic())
    if as_json:
        print_json(_as_json(seen))
    elif seen.seen_count:
        say(f"nothing is being moved any more: {_line(seen)}")
    else:
        say("nothing is being moved")


def _states(cluster: Cluster) -> list[MoveState]:
    moves = Reassignments(cluster).ongoing()
    if not moves:
        return []
    layout = cluster.retry("listing brokers", lambda: cluster.layout({move.partition.topic for move in moves}))
    partitions = [move.partition for move in moves]
    asked = {broker for move in moves for broker in move.replicas} & layout.brokers.keys()
    sizes = sizes_on(cluster, sorted(asked), partitions)
    leaders = {
        move.partition: one.leader
        for move in moves
        if move.partition.topic in layout.topics
        for one in layout.topics[move.partition.topic].partitions
        if one.id == move.partition.partition
    }
    return [state_of(move, leaders.get(move.partition, -1), sizes) for move in moves]


def _print(seen: Progress) -> None:
    if seen.states:
        print_table(
            ("partition", "to", "adding", "removing", "copied", "of", "%"),
            [
                (
                    str(state.move.partition),
                    state.move.target,
                    state.move.adding,
                    state.move.removing,
                    format_bytes(state.copied_bytes),
                    format_bytes(state.total_bytes),
                    _percent(state.copied_bytes, state.total_bytes),
                )
                for state in seen.states
            ],
        )
    say(_line(seen))


def _line(seen: Progress) -> str:
    line = (
        f"{seen.arrived_count} of {seen.seen_count} partitions,"
        f" {format_bytes(seen.copied_bytes)} of {format_bytes(seen.total_bytes)}"
    )
    if not seen.states:
        return line
    if seen.bytes_per_s is not None:
        line += f", {format_bytes(seen.bytes_per_s)}/s"
    left_s = seen.seconds_left
    return line + (", no end in sight" if left_s is None else f", {format_span(int(left_s * 1000))} left")


def _percent(part: int, whole: int) -> int:
    return 100 if whole == 0 else 100 * part // whole


def _as_json(seen: Progress) -> dict[str, Any]:
    return {
        "moves": [
            {
                "topic": state.move.partition.topic,
                "partition": state.move.partition.partition,
                "to": list(state.move.target),
                "adding": list(state.move.adding),
                "removing": list(state.move.removing),
                "copied_bytes": state.copied_bytes,
                "total_bytes": state.total_bytes,
            }
            for state in seen.states
        ],
        "arrived": seen.arrived_count,
        "copied_bytes": seen.copied_bytes,
        "total_bytes": seen.total_bytes,
        "bytes_per_second": seen.bytes_per_s,
        "seconds_left": seen.seconds_left,
    }
