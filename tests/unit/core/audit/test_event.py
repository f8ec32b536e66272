"""Lines of the audit log, and their OCSF form."""

import json
from typing import Any

import pytest

from odradek.base.principal import Principal
from odradek.core.audit.event import (
    AUTHENTICATION,
    AUTHORIZATION,
    DENIED,
    DROPPED,
    FAILURE,
    STARTED,
    SUCCESS,
    TEXT_LENGTH_MAX,
    AuditEvent,
    Caller,
    fields_of,
    line_of,
)
from odradek.core.audit.ocsf import ocsf_fields_of

CALLER = Caller(Principal("User", "ann"), "10.0.0.1", "app", "CLIENT", "CreateTopics", "1-5-9", 17)
CREATED = AuditEvent(1500, 1, "topic.create", SUCCESS, CALLER, resource_type="TOPIC", resource_name="orders", after={})
LOGIN = AuditEvent(
    1500,
    1,
    AUTHENTICATION,
    FAILURE,
    Caller(address="10.0.0.1", listener="CLIENT"),
    resource_type="USER",
    resource_name="ann",
    mechanism="PLAIN",
    detail="wrong password",
)
DENIAL = AuditEvent(1500, 1, AUTHORIZATION, DENIED, CALLER, "CREATE", "TOPIC", "orders")


def test_every_event_has_the_same_fields_in_the_same_order() -> None:
    events = (CREATED, LOGIN, DENIAL, AuditEvent(0, 1, DROPPED, FAILURE))
    assert len({tuple(fields_of(one)) for one in events}) == 1
    shown = fields_of(CREATED)
    assert shown["time"] == "1970-01-01T00:00:01.500Z"
    assert (shown["principal"], shown["address"], shown["client_id"]) == ("User:ann", "10.0.0.1", "app")
    assert (shown["request_id"], shown["correlation_id"], shown["forwarded"]) == ("1-5-9", 17, False)


@pytest.mark.parametrize("text", ['a\n{"event":"forged"}', "\x1b[2J", "\u2028", "\ud800", '"', "\0"])
def test_no_text_of_a_client_starts_another_line_or_controls_a_terminal(text: str) -> None:
    caller = Caller(Principal("User", text), text, text, "CLIENT")
    line = line_of(fields_of(AuditEvent(0, 1, AUTHORIZATION, DENIED, caller, resource_name=text, after={text: text})))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert all(32 <= byte < 127 for byte in line[:-1])
    shown = json.loads(line)
    assert (shown["client_id"], shown["resource_name"], shown["after"]) == (text, text, {text: text})


def test_long_texts_and_collections_are_cut_off() -> None:
    long = "x" * (TEXT_LENGTH_MAX + 5)
    event = CREATED._replace(resource_name=long, after={"list": list(range(2000)), **{str(n): 1 for n in range(2000)}})
    shown = fields_of(event)
    assert shown["resource_name"].endswith("x... and 5 more characters")
    assert len(shown["after"]) == 1001 and len(shown["after"]["list"]) == 1001
    assert shown["after"]["..."] == "and 1001 more"


@pytest.mark.parametrize(
    ("event", "class_uid", "activity_id", "status_id"),
    [
        (CREATED, 3004, 1, 1),
        (CREATED._replace(event="topic.delete"), 3004, 4, 1),
        (CREATED._replace(event="config.alter", outcome=FAILURE), 3004, 3, 2),
        (LOGIN, 3002, 1, 2),
        (DENIAL, 6003, 99, 2),
        (AuditEvent(0, 1, STARTED, SUCCESS), 6002, 3, 1),
        (AuditEvent(0, 1, DROPPED, FAILURE, after={"count": 3}), 6002, 99, 2),
    ],
)
def test_ocsf_classes(event: AuditEvent, class_uid: int, activity_id: int, status_id: int) -> None:
    fields = ocsf_fields_of(event, "0.3.0")
    found = {name: fields[name] for name in ("class_uid", "activity_id", "status_id")}
    assert found == {"class_uid": class_uid, "activity_id": activity_id, "status_id": status_id}
    assert fields["category_uid"] == class_uid // 1000
    assert fields["type_uid"] == class_uid * 100 + activity_id
    assert isinstance(fields["time"], int)
    assert fields["metadata"]["product"]["name"] == "Odradek"
    json.loads(line_of(fields))


def test_ocsf_names_who_and_what() -> None:
    fields: dict[str, Any] = ocsf_fields_of(CREATED, "0.3.0")
    assert (fields["actor"]["user"]["name"], fields["src_endpoint"]) == ("User:ann", {"ip": "10.0.0.1"})
    assert fields["entity"] == {"type": "TOPIC", "name": "orders", "data": None}
    assert fields["entity_result"]["data"] == {}
    assert fields["metadata"]["correlation_uid"] == "1-5-9"
    login = ocsf_fields_of(LOGIN, "0.3.0")
    assert (login["user"]["name"], login["auth_protocol"], login["status_detail"]) == ("ann", "PLAIN", "wrong password")
    denial = ocsf_fields_of(DENIAL, "0.3.0")
    assert denial["api"]["operation"] == "CreateTopics"
    assert denial["resources"] == [{"type": "TOPIC", "name": "orders"}]
    assert denial["unmapped"]["operation"] == "CREATE"
