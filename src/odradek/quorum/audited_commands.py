"""Reports the administrative changes of the active controller to the audit log.

A change is reported by the controller that has executed it, once it is committed. What changed is known from the image
before the command and from the records that the command wrote.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from odradek.base.errors import KafkaError
from odradek.core.audit.event import SUCCESS, UNKNOWN, AuditEvent, Caller
from odradek.core.audit.metadata_changes import describe_changes
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import MetadataRecord
from odradek.quorum.ports import BuildErrorResponse, CommandPort, Execute
from odradek.server.audit.requests import (
    CONFIG,
    ChangeKind,
    Handle,
    RequestAudit,
    failed_events,
    response_of,
    succeeded,
)
from odradek.server.audit.trail import AuditTrail
from odradek.server.context import RequestContext
from odradek.wire.apis import CONSENSUS_APIS, ApiKey
from odradek.wire.forwarding import is_from_wrong_node
from odradek.wire.schemas import Message, Schema


def _acl_name(request: Message, position: int) -> str | None:
    entries = getattr(request, "creations", None) or getattr(request, "filters", None) or ()
    if position >= len(entries):
        return None
    entry = entries[position]
    return getattr(entry, "resource_name", None) or getattr(entry, "resource_name_filter", None)


CONTROLLER_CHANGES: Final[Mapping[int, ChangeKind]] = {
    ApiKey.CREATE_TOPICS: ChangeKind("topic.create", "TOPIC"),
    ApiKey.DELETE_TOPICS: ChangeKind("topic.delete", "TOPIC"),
    ApiKey.CREATE_PARTITIONS: ChangeKind("partitions.create", "TOPIC"),
    ApiKey.ALTER_CONFIGS: ChangeKind("config.alter", CONFIG),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ChangeKind("config.alter", CONFIG),
    ApiKey.CREATE_ACLS: ChangeKind("acl.create", "ACL", _acl_name),
    ApiKey.DELETE_ACLS: ChangeKind("acl.delete", "ACL", _acl_name),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ChangeKind("scram_credential.alter", "USER"),
    ApiKey.ALTER_CLIENT_QUOTAS: ChangeKind("quota.alter", "CLIENT_QUOTA"),
    ApiKey.CREATE_DELEGATION_TOKEN: ChangeKind("delegation_token.create", "DELEGATION_TOKEN"),
    ApiKey.RENEW_DELEGATION_TOKEN: ChangeKind("delegation_token.alter", "DELEGATION_TOKEN"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ChangeKind("delegation_token.alter", "DELEGATION_TOKEN"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ChangeKind("partition.reassign", "TOPIC"),
    ApiKey.ELECT_LEADERS: ChangeKind("leader.elect", "TOPIC"),
    ApiKey.UPDATE_FEATURES: ChangeKind("feature.update", "FEATURE"),
    ApiKey.UNREGISTER_BROKER: ChangeKind("broker.unregister", "BROKER", lambda request, _: str(request.broker_id)),
    ApiKey.ADD_RAFT_VOTER: ChangeKind("voter.add", "CONTROLLER", lambda request, _: str(request.voter_id)),
    ApiKey.REMOVE_RAFT_VOTER: ChangeKind("voter.remove", "CONTROLLER", lambda request, _: str(request.voter_id)),
}


class ControllerAudit(RequestAudit):
    def __init__(self, trail: AuditTrail, *, has_authorizer: bool) -> None:
        super().__init__(trail, CONTROLLER_CHANGES, has_authorizer=has_authorizer)

    async def run(
        self, kind: ChangeKind, handle: Handle, request: Message, context: RequestContext, port: Any, caller: Caller
    ) -> Any:
        if context.api_key in CONSENSUS_APIS:
            return await self._run_voter_change(kind, handle, request, context, port, caller)
        noted = _NotedCommands(port.controller)
        response: Message | None = None
        try:
            response = await response_of(handle, request, context, _NodeWith(noted, port))
        finally:
            # Also of a request whose client does not wait any longer.
            self._report(kind, request, response, noted, caller, context)
        return response

    def _report(
        self,
        kind: ChangeKind,
        request: Message,
        response: Message | None,
        noted: "_NotedCommands",
        caller: Caller,
        context: RequestContext,
    ) -> None:
        now_ms, node_id = self._trail.clock.wall_ms(), self._trail.node_id
        before, records, kraft_version = noted.before, noted.records, noted.kraft_version
        has_changes = bool(records) or kraft_version is not None
        # The broker repeats the request at the next controller. What this one has written may still be committed.
        is_committed = response is not None and noted.failure is None
        is_elsewhere = response is None or is_from_wrong_node(context.api_key, response)
        if is_elsewhere and not has_changes:
            return

        def build() -> list[AuditEvent]:
            events = []
            if has_changes and before is not None:
                outcome = SUCCESS if is_committed else UNKNOWN
                events = [
                    AuditEvent(
                        now_ms,
                        node_id,
                        change.event,
                        outcome,
                        caller,
                        resource_type=change.resource_type,
                        resource_name=change.resource_name,
                        error=None if noted.failure is None else noted.failure.code.name.upper(),
                        before=change.before,
                        after=change.after,
                    )
                    for change in describe_changes(before, records, kraft_version)
                ]
            if response is not None and not is_elsewhere:
                events += failed_events(kind, request, response, now_ms, node_id, caller)
            return events

        self._trail.sink.offer(build, size=max(1, len(records)), is_change=has_changes)

    async def _run_voter_change(
        self, kind: ChangeKind, handle: Handle, request: Message, context: RequestContext, port: Any, caller: Caller
    ) -> Message:
        before = {"voters": port.quorum.voter_ids}
        response: Message = await response_of(handle, request, context, port)
        if is_from_wrong_node(context.api_key, response) or _is_not_leader(response):
            return response
        after = {"voters": port.quorum.voter_ids}
        now_ms, node_id = self._trail.clock.wall_ms(), self._trail.node_id

        def build() -> list[AuditEvent]:
            failed = failed_events(kind, request, response, now_ms, node_id, caller)
            if failed or before == after:
                return failed
            name = kind.name_in_request(request, 0)
            return [succeeded(kind, now_ms, node_id, caller, name, before=before, after=after)]

        self._trail.sink.offer(build, is_change=True)
        return response


def _is_not_leader(response: Message) -> bool:
    return bool(response.error_code.name == "not_leader_or_follower")


class _NotedCommands:
    """The `CommandPort` of one request."""

    def __init__(self, commands: CommandPort) -> None:
        self._commands: Final = commands
        self.before: ClusterImage | None = None
        self.records: Sequence[MetadataRecord] = ()
        self.kraft_version: int | None = None
        self.failure: KafkaError | None = None
        """Why the change that was written may not be committed."""

    async def handle(
        self, request: Message, messages: Schema, execute: Execute, build_error_response: BuildErrorResponse
    ) -> Message:
        def execute_and_note(
            request: Message, messages: Schema, controller: ControllerCommands
        ) -> ControllerResult[Message]:
            self.before = controller.image
            result = execute(request, messages, controller)
            self.records, self.kraft_version = result.records, result.kraft_version
            return result

        def build_and_note(request: Message, messages: Schema, error: KafkaError) -> Message:
            self.failure = error
            return build_error_response(request, messages, error)

        return await self._commands.handle(request, messages, execute_and_note, build_and_note)


class _NodeWith:
    """A controller node with other commands."""

    def __init__(self, commands: CommandPort, node: Any) -> None:
        self.controller: Final = commands
        self._node: Final = node

    def __getattr__(self, name: str) -> Any:
        return getattr(cast(Any, self._node), name)
