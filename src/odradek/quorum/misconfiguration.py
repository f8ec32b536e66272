"""Logs nodes that do not fit into this node's quorum, and why: one line for each problem.

Consensus rejects such nodes with an error code only. This module explains the reason, on the rejecting and on the
rejected side. It also logs which voters are unreachable while the quorum has no leader.
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

WARNINGS_MAX: Final = 100
"""Different warnings: more of them would only fill the log."""
LEADERLESS_SECONDS: Final = 5.0
"""Time without a leader before the first warning; each further interval doubles."""


class MisconfigurationLog:
    def __init__(
        self, node_id: int, cluster_id: str, static_voter_ids: Iterable[int], directory_id: UUID | None = None
    ) -> None:
        self._node_id: Final = node_id
        self._directory_id: Final = directory_id
        self._cluster_id: Final = cluster_id
        self._static_voter_ids: Final = frozenset(static_voter_ids)
        self._logged: Final[dict[str, None]] = {}
        self.own_problem = ""
        """Why other nodes reject this node, if they do."""

    def on_request(self, request: Any, error: ErrorCode) -> None:
        """A request of another node, and the error code of its response."""
        sender = _sender(request)
        if sender is None:
            return
        if error is ErrorCode.inconsistent_cluster_id:
            self._warn(f"Rejected node {sender}: its cluster ID is {request.cluster_id}, not {self._cluster_id}")
        elif sender == self._node_id:
            replica = getattr(request, "replica", None)
            if replica is not None and replica.directory_id == self._directory_id:
                # This node itself, which looks for the leader at all configured addresses.
                return
            self._warn(
                f"Rejected another node with node.id={sender}, which is the ID of this node. "
                "Give each node a unique node.id."
            )
        elif isinstance(request, VoteRequest):
            self._check_controller(sender)

    def on_response(self, node_id: int, address: Address, error: ErrorCode) -> None:
        who = f"node {node_id}" if node_id >= 0 else "the node"
        if error is ErrorCode.cluster_authorization_failed:
            self.own_problem = (
                f"{who} at {address.host}:{address.port} denies the requests of this node: its principal needs "
                "CLUSTER_ACTION on the cluster. Add it to super.users of every controller."
            )
            self._warn(f"Rejected: {self.own_problem}")
        elif error is ErrorCode.inconsistent_cluster_id:
            self.own_problem = (
                f"{who} at {address.host}:{address.port} belongs to another cluster than this node, whose cluster ID "
                f"is {self._cluster_id}. Format the log dirs for that cluster, or correct the controller addresses."
            )
            self._warn(f"Rejected: {self.own_problem}")

    def on_control(self, control: Iterable[ControlMessage]) -> None:
        """A leader with static voters writes them to the log."""
        for message in control:
            if isinstance(message, LeaderChangeV0) and self._static_voter_ids:
                named = {voter.voter_id for voter in message.voters}
                if named != self._static_voter_ids:
                    self._warn(
                        f"Leader {message.leader_id} has the voters {_join_ids(named)}, "
                        f"and controller.quorum.voters of this node has {_join_ids(self._static_voter_ids)}. "
                        "Use the same value on every node."
                    )

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Controllers register with the active controller, whether or not they are voters."""
        for node_id in delta.controllers_changed:
            self._check_controller(node_id)

    def _check_controller(self, node_id: int) -> None:
        if self._static_voter_ids and node_id not in self._static_voter_ids:
            self._warn(
                f"Controller {node_id} is not one of the voters {_join_ids(self._static_voter_ids)}. "
                "Use the same controller.quorum.voters on every node."
            )

    def _warn(self, problem: str) -> None:
        if problem not in self._logged and len(self._logged) < WARNINGS_MAX:
            self._logged[problem] = None
            logger.warning("%s", problem)


class NoLeaderWarning:
    """Logs a warning while the quorum has no leader."""

    def __init__(
        self, has_leader: Callable[[], bool], unreachable: Callable[[], list[str]], *, has_authorizer: bool = False
    ) -> None:
        """`unreachable` returns the nodes to which there is no connection."""
        # Before a leader is elected, the ACLs are not known.
        self._advice: Final = " Their principals must be in super.users." if has_authorizer else ""
        self._has_leader: Final = has_leader
        self._unreachable: Final = unreachable
        self._timer: asyncio.TimerHandle | None = None

    def on_leader_change(self) -> None:
        if self._has_leader():
            self.stop()
        elif self._timer is None:
            self._schedule(LEADERLESS_SECONDS, LEADERLESS_SECONDS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, seconds: float, since_seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._warn, since_seconds)

    def _warn(self, since_seconds: float) -> None:
        unreachable = ", ".join(self._unreachable()) or "none"
        logger.warning(
            "No quorum leader: seconds=%d, unreachable=%s. A majority of the voters must run and reach each other.%s",
            since_seconds,
            unreachable,
            self._advice,
        )
        self._schedule(since_seconds, 2 * since_seconds)


def _sender(request: Any) -> int | None:
    if (replica := getattr(request, "replica", None)) is not None:
        return replica.node_id if replica.node_id >= 0 else None
    return getattr(request, "leader_id", None)


def _join_ids(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(node_ids)))
