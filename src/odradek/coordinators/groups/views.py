"""What DescribeGroups and ListGroups show of groups."""

from collections.abc import Collection, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.group_commands import DescribedGroup, DescribedMember, ListedGroup

from .classic_group import ClassicGroup, State
from .groups import Groups

NOT_FOUND_SINCE: Final = 6
"""From this version of DescribeGroups on, a group that is not there is an error; before, it is dead."""
CLASSIC: Final = "classic"


def describe_groups(groups: Groups, group_ids: Sequence[str], version: int) -> tuple[DescribedGroup, ...]:
    return tuple(_describe(groups.get(group_id), group_id, version) for group_id in group_ids)


def _describe(group: ClassicGroup | None, group_id: str, version: int) -> DescribedGroup:
    if group is None:
        if version < NOT_FOUND_SINCE:
            return DescribedGroup(group_id, ErrorCode.none, None, State.DEAD.value)
        message = f"Group {group_id} not found."
        return DescribedGroup(group_id, ErrorCode.group_id_not_found, message, State.DEAD.value)
    shown = group.protocol_name if group.state is State.STABLE else None
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            b"" if shown is None else member.metadata(shown),
            member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        group_id, ErrorCode.none, None, group.state.value, group.protocol_type or "", shown or "", members
    )


def list_groups(groups: Groups, states: Collection[str], kinds: Collection[str]) -> tuple[ListedGroup, ...]:
    """Of these states and kinds, written in whatever case; of all, where none are named."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_kinds = {kind.strip().lower() for kind in kinds}
    return tuple(
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
        for group in groups
        if (not wanted_states or group.state.value.lower() in wanted_states)
        and (not wanted_kinds or CLASSIC in wanted_kinds)
    )
