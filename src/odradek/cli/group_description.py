"""Prints one group: state, members and recent rebalances."""

from collections.abc import Iterable, Sequence
from typing import Any

from odradek.base.ids import TopicPartition
from odradek.client.groups import EMPTY, GroupDescription, GroupMember
from odradek.client.partition_names import name_partitions
from odradek.client.rebalances import Rebalance
from odradek.text.output import print_table
from odradek.text.terminal import say
from odradek.text.times import format_span, format_time


def print_described(group: GroupDescription, rebalances: Sequence[Rebalance] | None) -> None:
    """Print a group. `rebalances` is None if the coordinator does not report them."""
    _print_state(group)
    if rebalances:
        print_table(
            ("rebalance started", "duration", "cause"),
            [(format_time(one.began_ms), _duration(one), one.cause) for one in rebalances],
        )


def _print_state(one: GroupDescription) -> None:
    is_classic = one.epoch is None
    print_table(
        (
            "group",
            "type",
            "state",
            "protocol",
            "assignor",
            "coordinator",
            "members",
            *(() if is_classic else ("epoch",)),
        ),
        [
            (
                one.id,
                one.type,
                one.state,
                one.protocol_type or None,
                one.assignor or None,
                str(one.coordinator),
                len(one.members),
                *(() if is_classic else (one.epoch,)),
            )
        ],
    )
    if not one.members:
        say(f"Group {one.id!r} has no members" + ("." if one.state == EMPTY else f"; its state is {one.state}."))
        return
    columns = ("client", "host", "instance", "assigned", *(() if is_classic else ("target", "epoch")), "member")
    print_table(columns, [_member_row(member, is_classic) for member in one.members])
    if one.is_active and one.state != "Stable":
        say(f"Group {one.id!r} is rebalancing.")


def _member_row(member: GroupMember, is_classic: bool) -> tuple[object, ...]:
    target = member.target if member.target != member.assigned else None
    return (
        member.client_id,
        member.host,
        member.instance_id,
        "unknown format" if member.assigned is None else name_partitions(member.assigned) or None,
        *(() if is_classic else (target and name_partitions(target), member.epoch)),
        member.id,
    )


def describe_as_json(group: GroupDescription, rebalances: Sequence[Rebalance] | None) -> dict[str, Any]:
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": {"node": group.coordinator.node_id, "address": str(group.coordinator.address)},
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [
            {
                "member": member.id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "rack": member.rack,
                "epoch": member.epoch,
                "subscribed": list(member.subscribed),
                "subscribed_pattern": member.subscribed_pattern,
                "assigned": _partitions_as_json(member.assigned),
                "target": _partitions_as_json(member.target),
            }
            for member in group.members
        ],
        "rebalances": None
        if rebalances is None
        else [{"cause": one.cause, "began_ms": one.began_ms, "ended_ms": one.ended_ms} for one in rebalances],
    }


def _partitions_as_json(partitions: Iterable[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    return [{"topic": one.topic, "partition": one.partition} for one in partitions]


def _duration(rebalance: Rebalance) -> str | None:
    return None if rebalance.ended_ms is None else format_span(rebalance.ended_ms - rebalance.began_ms)
