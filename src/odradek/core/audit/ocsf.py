"""Events as the Open Cybersecurity Schema Framework (https://schema.ocsf.io) names their fields.

Failed logins are of class Authentication, denials of API Activity, changes of Entity Management, and what the audit log
reports about itself of Application Lifecycle.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from odradek.core.audit.event import AUTHENTICATION, AUTHORIZATION, DROPPED, STARTED, SUCCESS, AuditEvent, fields_of

SCHEMA_VERSION: Final = "1.3.0"
PRODUCT: Final = "Odradek"

_CREATE, _UPDATE, _DELETE, _OTHER = 1, 3, 4, 99
_ACTIVITY_NAMES: Final = {_CREATE: "Create", _UPDATE: "Update", _DELETE: "Delete", _OTHER: "Other"}
_ACTIVITIES: Final = {"create": _CREATE, "add": _CREATE, "delete": _DELETE, "remove": _DELETE, "unregister": _DELETE}
_INFORMATIONAL, _LOW, _HIGH = 1, 2, 4
_SEVERITIES: Final = {_INFORMATIONAL: "Informational", _LOW: "Low", _HIGH: "High"}
_STATUSES: Final = {1: "Success", 2: "Failure", 0: "Unknown"}
_OTHER_PROTOCOL: Final = 99


class _Class(NamedTuple):
    uid: int
    name: str
    category_uid: int
    category_name: str


_IAM: Final = "Identity & Access Management"
_APPLICATION: Final = "Application Activity"
_LOGIN: Final = _Class(3002, "Authentication", 3, _IAM)
_MANAGEMENT: Final = _Class(3004, "Entity Management", 3, _IAM)
_LIFECYCLE: Final = _Class(6002, "Application Lifecycle", 6, _APPLICATION)
_API: Final = _Class(6003, "API Activity", 6, _APPLICATION)


def ocsf_fields_of(event: AuditEvent, version: str) -> dict[str, Any]:
    """`version` is that of this program."""
    shown = fields_of(event)
    kind, activity_id, activity_name, own = _kind(event, shown)
    status_id = {"success": 1, "unknown": 0}.get(event.outcome, 2)
    severity_id = _HIGH if event.event == DROPPED else _INFORMATIONAL if event.outcome == SUCCESS else _LOW
    fields: dict[str, Any] = {
        "time": event.time_ms,
        "class_uid": kind.uid,
        "class_name": kind.name,
        "category_uid": kind.category_uid,
        "category_name": kind.category_name,
        "activity_id": activity_id,
        "activity_name": activity_name,
        "type_uid": kind.uid * 100 + activity_id,
        "type_name": f"{kind.name}: {activity_name}",
        "severity_id": severity_id,
        "severity": _SEVERITIES[severity_id],
        "status_id": status_id,
        "status": _STATUSES[status_id],
        "metadata": {
            "version": SCHEMA_VERSION,
            "product": {"name": PRODUCT, "vendor_name": PRODUCT, "version": version},
            "log_name": "audit",
            "event_code": event.event,
        },
        **own,
        "unmapped": {
            name: shown[name]
            for name in ("node_id", "listener", "token_authenticated", "correlation_id", "forwarded", "operation")
        },
    }
    for name, value in (("status_code", shown["error"]), ("status_detail", shown["detail"])):
        if value is not None:
            fields[name] = value
    if shown["request_id"] is not None:
        fields["metadata"]["correlation_uid"] = shown["request_id"]
    return fields


def _kind(event: AuditEvent, shown: Mapping[str, Any]) -> tuple[_Class, int, str, dict[str, Any]]:
    """The class, the activity's number and name, and the fields that only this class has."""
    source = {"ip": shown["address"]}
    user = _user(shown["principal"])
    if event.event == AUTHENTICATION:
        return (
            _LOGIN,
            1,
            "Logon",
            {
                "user": _user(shown["resource_name"]),
                "src_endpoint": source,
                "service": {"name": shown["listener"]},
                "auth_protocol": shown["mechanism"],
                "auth_protocol_id": _OTHER_PROTOCOL,
                "is_remote": True,
            },
        )
    if event.event in (STARTED, DROPPED):
        activity_id, name = (3, "Start") if event.event == STARTED else (_OTHER, _ACTIVITY_NAMES[_OTHER])
        return _LIFECYCLE, activity_id, name, {"app": {"name": PRODUCT}, "message": str(shown["after"])}
    actor = {"user": user, "app_name": shown["client_id"]}
    resource: dict[str, Any] = {"type": shown["resource_type"], "name": shown["resource_name"]}
    api = {"operation": shown["api"] or shown["operation"], "service": {"name": "Kafka"}}
    if event.event == AUTHORIZATION:
        denied = {"actor": actor, "api": api, "src_endpoint": source, "resources": [resource]}
        return _API, _OTHER, _ACTIVITY_NAMES[_OTHER], denied
    activity_id = _ACTIVITIES.get(event.event.rpartition(".")[2], _UPDATE)
    changed = {
        "actor": actor,
        "api": api,
        "src_endpoint": source,
        "entity": {**resource, "data": shown["before"]},
        "entity_result": {**resource, "data": shown["after"]},
    }
    return _MANAGEMENT, activity_id, _ACTIVITY_NAMES[activity_id], changed


def _user(principal: str | None) -> dict[str, Any]:
    return {"name": "unknown", "type_id": 0} if principal is None else {"name": principal, "type_id": 1}
