"""Says in this node's log who does not fit into its quorum, and why: once for each, however often it is tried.

Who is refused is consensus's matter, and its answer is a number; here it is put into words, on the side that refuses
and on the side that is refused. Also the voters that do not answer, while nobody leads.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.config.listeners import Address
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage
from odradek.core.raft.messages import VoteRequest
from odradek.records.control import ControlMessage, LeaderChangeV0

logger = logging.getLogger(__name__)

TOLD_MAX: Final = 100
"""Different things. Whoever has more to hear has read enough."""
LEADERLESS_SECONDS: Final = 5.0
"""How long nobody leads before that is worth a line; the next line comes after twice as long."""


class Misfits:
    def __init__(
        self, node_id: int, cluster_id: str, static_voter_ids: Iterable[int], directory_id: UUID | None = None
    ) -> None:
        self._node_id: Final = node_id
        self._directory_id: Final = directory_id
        self._cluster_id: Final = cluster_id
        self._static_voter_ids: Final = frozenset(static_voter_ids)
        self._told: Final[dict[str, None]] = {}
        self.own_fault = ""
        """What others hold against this node, if anything."""

    def asked(self, request: Any, error: ErrorCode) -> None:
        """Another node's request, and how it was answered."""
        sender = _sender(request)
        if sender is None:
            return
        if error is ErrorCode.inconsistent_cluster_id:
            self._tell(
                f"node {sender} is refused: it is of cluster {request.cluster_id}, and this node of {self._cluster_id}"
            )
        elif sender == self._node_id:
            replica = getattr(request, "replica", None)
            if replica is not None and replica.directory_id == self._directory_id:
                # This node itself, which looks for the leader at all addresses that it was given.
                return
            self._tell(
                f"another node calls itself node {sender}, as this one does; it is refused: "
                "give each node a number of its own"
            )
        elif isinstance(request, VoteRequest):
            self._look_at_controller(sender)

    def refused_by(self, node_id: int, address: Address, error: ErrorCode) -> None:
        if error is ErrorCode.inconsistent_cluster_id:
            who = f"node {node_id}" if node_id >= 0 else "the node"
            self.own_fault = (
                f"{who} at {address.host}:{address.port} is of another cluster than this node, whose log dirs belong "
                f"to {self._cluster_id}; format them for that one, or correct the addresses of the controllers"
            )
            self._tell(f"refused: {self.own_fault}")

    def committed(self, control: Iterable[ControlMessage]) -> None:
        """A leader without voters of its own in the log names those that it was configured with."""
        for message in control:
            if isinstance(message, LeaderChangeV0) and self._static_voter_ids:
                named = {voter.voter_id for voter in message.voters}
                if named != self._static_voter_ids:
                    self._tell(
                        f"leader {message.leader_id}'s voters are {_listed(named)}, and controller.quorum.voters names "
                        f"{_listed(self._static_voter_ids)} here: it must be the same on every node"
                    )

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Controllers register with the active one, whoever they think has a vote."""
        for node_id in delta.controllers_changed:
            self._look_at_controller(node_id)

    def _look_at_controller(self, node_id: int) -> None:
        if self._static_voter_ids and node_id not in self._static_voter_ids:
            self._tell(
                f"node {node_id} is a controller and not one of the voters {_listed(self._static_voter_ids)}: "
                "its controller.quorum.voters is another than this node's"
            )

    def _tell(self, what: str) -> None:
        if what not in self._told and len(self._told) < TOLD_MAX:
            self._told[what] = None
            logger.warning("%s", what)


class LeaderlessWatch:
    """Breaks the silence of a node that waits for a leader."""

    def __init__(self, is_led: Callable[[], bool], not_reached: Callable[[], list[str]]) -> None:
        """`not_reached`: the nodes that it tries in vain to talk to."""
        self._is_led: Final = is_led
        self._not_reached: Final = not_reached
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """To be called whenever somebody else leads, or nobody any more."""
        if self._is_led():
            self.stop()
        elif self._timer is None:
            self._tell_after(LEADERLESS_SECONDS, LEADERLESS_SECONDS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell_after(self, seconds: float, since_seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tell, since_seconds)

    def _tell(self, since_seconds: float) -> None:
        not_reached = self._not_reached()
        logger.warning(
            "the quorum has had no leader for %d s: a majority of its voters must run and reach each other; %s",
            since_seconds,
            f"not reached from here: {', '.join(not_reached)}" if not_reached else "all that are known are reached",
        )
        self._tell_after(since_seconds, 2 * since_seconds)


def _sender(request: Any) -> int | None:
    if (replica := getattr(request, "replica", None)) is not None:
        return replica.node_id if replica.node_id >= 0 else None
    return getattr(request, "leader_id", None)


def _listed(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(node_ids)))
