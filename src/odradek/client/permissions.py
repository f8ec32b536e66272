"""What a client needs after an authorization error, and the command with which an administrator allows it.

The error code names the type of the resource; the table of APIs knows which operation the request needs on it.
"""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.client.acl_text import add_command, describe_permission
from odradek.core.security.acl_entry import allowing_entry
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.wire.apis import APIS, ApiKey
from odradek.wire.schemas import Message

AUTHORIZATION_ERRORS: Final = {
    ErrorCode.topic_authorization_failed: ResourceType.TOPIC,
    ErrorCode.group_authorization_failed: ResourceType.GROUP,
    ErrorCode.cluster_authorization_failed: ResourceType.CLUSTER,
    ErrorCode.transactional_id_authorization_failed: ResourceType.TRANSACTIONAL_ID,
    ErrorCode.delegation_token_authorization_failed: ResourceType.USER,
}
"""The type of the resource that each code is about."""
# Where the first operation of the table is not the one that the client wants.
_WANTED: Final = {(ApiKey.DELETE_TOPICS, ResourceType.TOPIC): Operation.DELETE}
_NAME_FIELDS: Final = {
    ResourceType.TOPIC: ("name", "resource_name"),
    ResourceType.GROUP: ("group_id", "key", "resource_name"),
    ResourceType.TRANSACTIONAL_ID: ("transactional_id", "key"),
}
"""Where the parts of responses that are about one resource contain its name."""
_UNKNOWN_PRINCIPAL: Final = "User:NAME"


class NotAuthorized(KafkaError):
    """The principal of the client may not perform the operation on the resource."""

    def __init__(
        self, code: ErrorCode, message: str | None, operation: Operation, resource_type: ResourceType, name: str | None
    ) -> None:
        super().__init__(code, message)
        self.operation: Final = operation
        self.resource_type: Final = resource_type
        self.name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else name
        """None: the response does not contain it."""
        self.principal: Principal | None = None
        """None: the client does not know its principal."""

    def for_purpose(self, operation: Operation, resource_type: ResourceType, name: str) -> "NotAuthorized":
        """The same error for a client that needs this permission, which includes the one that was denied."""
        found = NotAuthorized(self.code, self.message, operation, resource_type, name)
        found.principal = self.principal
        return found

    def explanation(self) -> str | None:
        """What was denied, and the command that allows it. None if the resource is unknown."""
        if self.name is None:
            return None
        denied = describe_permission(self.operation, self.resource_type, self.name)
        principal = _UNKNOWN_PRINCIPAL if self.principal is None else str(self.principal)
        needed = allowing_entry(principal, self.operation, self.resource_type, self.name)
        return (
            f"{self.principal or 'This client'} may not {denied} ({self.code.name.upper()})."
            f" An administrator can allow it: {add_command(needed)}"
        )


def error_of(code: ErrorCode, message: str | None, api_key: int, name: str | None) -> KafkaError:
    """The exception for an error code in a response of this API, about the resource with this name."""
    resource_type = AUTHORIZATION_ERRORS.get(code)
    operation = None if resource_type is None else _operation(api_key, resource_type)
    if resource_type is None or operation is None:
        return KafkaError(code, message)
    return NotAuthorized(code, message, operation, resource_type, name)


def error_in(result: Message, name: str | None = None) -> KafkaError:
    """The exception for a part of a response that has an error code. `name`: of the resource, if the part lacks it."""
    message = getattr(result, "error_message", None)
    return error_of(result.error_code, message, result.__api_key__, name or _name_in(result))


def _name_in(result: Message) -> str | None:
    resource_type = AUTHORIZATION_ERRORS.get(result.error_code)
    fields = () if resource_type is None else _NAME_FIELDS.get(resource_type, ())
    return next((getattr(result, field) for field in fields if hasattr(result, field)), None)


def _operation(api_key: int, resource_type: ResourceType) -> Operation | None:
    wanted = _WANTED.get((ApiKey(api_key), resource_type))
    checks = APIS[api_key].checks if api_key in APIS else ()
    names = (check.operation for check in checks if check.resource == resource_type.name)
    return wanted or next((Operation[name] for name in names), None)
