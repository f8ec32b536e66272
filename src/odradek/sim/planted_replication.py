"""Bugs of replication, switched on by name. What finds them are several brokers with copies: see `planted`."""

from typing import Any, Final

from odradek.base.errors import ErrorCode
from odradek.replication.leader import LeaderState
from odradek.sim.planted_bug import PlantedBug
from odradek.sim.scenarios import REPLICAS_CRASH


def _at_once(sound: Any) -> Any:
    return lambda leader, end_offset: ErrorCode.none


REPLICATION_BUGS: Final = (
    PlantedBug(
        name="acknowledged-before-in-sync",
        what="the producer hears before the replicas in sync have its records",
        scenario=REPLICAS_CRASH,
        owner=LeaderState,
        attribute="acknowledgement",
        breaks=_at_once,
    ),
)
