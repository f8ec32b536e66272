"""DescribeAcls, versions 1 to 3: the ACLs that this node has applied, on brokers and controllers."""

from collections.abc import Awaitable, Iterable
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.slices import Slices
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.resources import Operation
from odradek.server.context import CLOSE_CONNECTION, NodePort, RequestContext, Response
from odradek.server.denials import find_cluster_denial
from odradek.wire.schemas import Message

_PER_SLICE: Final = 2_000
_UNKNOWN: Final = 0

_Pattern = tuple[int, int, str]


def handle(request: Message, context: RequestContext, node: NodePort) -> Response | Awaitable[Response]:
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if _UNKNOWN in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission_type):
        # Kafka cannot parse such a request.
        return CLOSE_CONNECTION
    denial = find_cluster_denial(context, Operation.DESCRIBE)
    if denial is None and not node.config.authorizer_class_name:
        denial = KafkaError(ErrorCode.security_disabled, "No Authorizer is configured on the broker")
    if denial is not None:
        return _response(context, denial, ())
    return node.slice_turns.start(_describe(wanted, context, node.image.access_control_entries.values()))


def _describe(wanted: AclFilter, context: RequestContext, entries: Iterable[AccessControlEntry]) -> Slices[Message]:
    by_pattern: dict[_Pattern, list[Message]] = {}
    resources: list[Message] = []
    for number, entry in enumerate(entries, start=1):
        if wanted.matches(entry):
            pattern = (entry.resource_type, entry.pattern_type, entry.resource_name)
            by_pattern.setdefault(pattern, []).append(_description(entry, context))
        if number % _PER_SLICE == 0:
            yield
    for number, (pattern, acls) in enumerate(by_pattern.items(), start=1):
        resources.append(_resource(pattern, acls, context))
        if number % _PER_SLICE == 0:
            yield
    return _response(context, None, resources)


def _description(entry: AccessControlEntry, context: RequestContext) -> Message:
    return context.new(
        "AclDescription",
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def _resource(pattern: _Pattern, acls: list[Message], context: RequestContext) -> Message:
    resource_type, pattern_type, name = pattern
    return context.new(
        "DescribeAclsResource",
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        acls=tuple(acls),
    )


def _response(context: RequestContext, error: KafkaError | None, resources: Iterable[Message]) -> Message:
    return context.new(
        "DescribeAclsResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none if error is None else error.code,
        # As in Kafka, a success has an empty message instead of null.
        error_message="" if error is None else error.message,
        resources=tuple(resources),
    )
