"""A member of a classic group."""

from collections.abc import Collection
from dataclasses import dataclass

from odradek.core.groups.commands import MemberProtocol
from odradek.core.groups.coordinator_result import Token

EMPTY_ASSIGNMENT = b""


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    """In the member's order of preference."""
    assignment: bytes = EMPTY_ASSIGNMENT
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False
    """It has not completed a rebalance yet, and sends no heartbeats."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting_for_response(self) -> bool:
        """It waits for a response, and need not send heartbeats meanwhile."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    @property
    def protocol_names(self) -> set[str]:
        return {protocol.name for protocol in self.protocols}

    def metadata(self, protocol_name: str) -> bytes:
        return next(protocol.metadata for protocol in self.protocols if protocol.name == protocol_name)

    def vote(self, candidates: Collection[str]) -> str:
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)
