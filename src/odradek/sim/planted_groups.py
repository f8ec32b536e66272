"""Planted bugs of group coordinators: early responses, incomplete loading, missing checks."""

from typing import Any, Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.coordinators.context import CoordinatorContext
from odradek.broker.coordinators.loader import LogLoader
from odradek.core.groups.classic_group import ClassicGroup
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.sim.planted_bug import always, plant
from odradek.sim.scenarios import GROUPS

_FORGOTTEN_RECORDS: Final = 3


def _respond_at_once(sound: Any) -> Any:
    def defer_until_committed(self: CoordinatorContext[Any, Any, Any], code: ErrorCode) -> DeferredResponse:
        return DeferredResponse.from_result(code)

    return defer_until_committed


def _serve_at_once(sound: Any) -> Any:
    def activate_when_committed(self: CoordinatorContext[Any, Any, Any]) -> None:
        self._activate()

    return activate_when_committed


def _forget_the_end(sound: Any) -> Any:
    async def load(self: LogLoader, end_offset: int) -> None:
        await sound(self, end_offset - _FORGOTTEN_RECORDS)

    return load


GROUP_BUGS: Final = (
    plant(
        "offset-commit-acknowledged-before-replication",
        "a coordinator responds when a commit is in its own log only",
        CoordinatorContext,
        "_defer_until_committed",
        _respond_at_once,
        scenario=GROUPS,
    ),
    plant(
        "coordinator-active-before-commit",
        "a new coordinator serves before its log is committed, and returns less than its predecessor did",
        CoordinatorContext,
        "_activate_when_committed",
        _serve_at_once,
        scenario=GROUPS,
    ),
    plant(
        "coordinator-skips-last-records",
        "a new coordinator does not load the last records",
        LogLoader,
        "load",
        _forget_the_end,
        scenario=GROUPS,
    ),
    plant(
        "stale-generation-commits",
        "a commit of a former generation is accepted",
        ClassicGroup,
        "check_offset_commit",
        always(None),
        scenario=GROUPS,
    ),
    plant(
        "stale-member-epoch-commits",
        "a commit with a stale member epoch is accepted",
        ConsumerGroup,
        "check_offset_commit",
        always(None),
        scenario=GROUPS,
    ),
    plant(
        "partition-assigned-before-revoked",
        "a partition is assigned to its next owner before the former one has revoked it",
        ConsumerGroup,
        "is_free",
        always(True),
        scenario=GROUPS,
    ),
)
