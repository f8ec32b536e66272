"""CreateAcls, versions 1 to 3. The valid entries of a request are created together."""

from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from odradek.quorum.apis.authorized_commands import handle_with_authorizer
from odradek.quorum.apis.response_parts import NO_THROTTLE, code_of, message_of
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message, Schema

_PATTERN_FILTERS: Final = (PatternType.ANY, PatternType.MATCH)


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return handle_with_authorizer(Operation.ALTER, request, context, node, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    if any(map(_has_filter, request.creations)):
        # As in Kafka, one such entry fails the whole request.
        return ControllerResult((), build_error_response(request, messages, _UNEXPECTED))
    errors = [_why_refused(creation) for creation in request.creations]
    valid = [_entry(one) for one, error in zip(request.creations, errors, strict=True) if error is None]
    result = controller.create_acls(valid)
    created = iter(result.response)
    return result.with_response(_response(messages, [next(created) if error is None else error for error in errors]))


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    return _response(messages, [error] * len(request.creations))


_UNEXPECTED: Final = KafkaError(ErrorCode.unknown_server_error)


def _has_filter(creation: Message) -> bool:
    """Whether it has a code that only filters may have."""
    return (
        creation.resource_type == ResourceType.ANY
        or creation.resource_pattern_type in _PATTERN_FILTERS
        or creation.operation == Operation.ANY
        or creation.permission_type == Permission.ANY
    )


def _why_refused(creation: Message) -> KafkaError | None:
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return KafkaError(ErrorCode.invalid_request, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        return KafkaError(ErrorCode.invalid_request, "Invalid empty resource name")
    return None


def _entry(creation: Message) -> AccessControlEntry:
    return AccessControlEntry(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _response(messages: Schema, errors: Sequence[KafkaError | None]) -> Message:
    return messages.new(
        "CreateAclsResponse",
        throttle_time=NO_THROTTLE,
        results=tuple(
            # As in Kafka, a success has an empty message instead of null.
            messages.new(
                "AclCreationResult",
                error_code=code_of(error),
                error_message="" if error is None else message_of(error),
            )
            for error in errors
        ),
    )
