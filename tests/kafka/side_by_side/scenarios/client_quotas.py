"""AlterClientQuotas and DescribeClientQuotas."""

from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
Entity = dict[str, str | None]
USER: Entity = {"user": "alice"}


def _alter(entity: Entity, *changes: tuple[str, float | None], validate_only: bool = False) -> dict[str, Any]:
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes]
    return {"entries": [{"entity": parts, "ops": ops}], "validate_only": validate_only}


def _describe(*components: tuple[str, int, str | None], strict: bool = False) -> dict[str, Any]:
    parts = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    return {"components": parts, "strict": strict}


@scenario
def alter_client_quotas(talk: Conversation) -> None:
    def alter(label: str, entity: Entity, *changes: tuple[str, float | None], **others: bool) -> None:
        talk.request(label, Api.ALTER_CLIENT_QUOTAS, _alter(entity, *changes, **others))

    talk.request_each_version("a limit", Api.ALTER_CLIENT_QUOTAS, _alter(USER, ("producer_byte_rate", 1e6)))
    alter("only validated", USER, ("consumer_byte_rate", 1e6), validate_only=True)
    alter("user and client ID", {"user": "alice", "client-id": None}, ("request_percentage", 12.5))
    alter("an address", {"ip": "10.1.2.3"}, ("connection_creation_rate", 5.0))
    alter("all addresses", {"ip": None}, ("connection_creation_rate", 100_000.0))
    alter("removal of what is not set", USER, ("consumer_byte_rate", None))
    alter("no changes", USER)
    alter("no entity", {}, ("producer_byte_rate", 1.0))
    alter("unknown type", {"group": "g"}, ("producer_byte_rate", 1.0))
    alter("empty name", {"user": ""}, ("producer_byte_rate", 1.0))
    alter("address and user", {"ip": "10.1.2.3", "user": "alice"}, ("connection_creation_rate", 5.0))
    alter("invalid address", {"ip": "not an address"}, ("connection_creation_rate", 5.0))
    alter("unknown key", USER, ("speed", 1.0))
    alter("key of an address", USER, ("connection_creation_rate", 1.0))
    alter("key of a user", {"ip": "10.1.2.3"}, ("producer_byte_rate", 1.0))
    alter("zero", USER, ("producer_byte_rate", 0.0))
    alter("negative", USER, ("request_percentage", -1.0))
    alter("fraction of a byte", USER, ("producer_byte_rate", 1.5))
    alter("fraction of a partition", USER, ("controller_mutation_rate", 1.5))
    alter("more than an INT", {"ip": "10.1.2.3"}, ("connection_creation_rate", 3e9))
    alter("more than a LONG", USER, ("producer_byte_rate", 1e19))
    alter("not a number", USER, ("request_percentage", float("nan")))
    alter("duplicate key", USER, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))
    alter("duplicate key of two names", {"user": "a", "client-id": None}, ("speed", 1.0), ("speed", 2.0))
    twice = _alter(USER, ("producer_byte_rate", 7.0))
    twice["entries"] *= 2
    talk.request("the same entity twice", Api.ALTER_CLIENT_QUOTAS, twice)
    talk.request("no entries", Api.ALTER_CLIENT_QUOTAS, {"entries": [], "validate_only": False})
    for entity, key in (
        (USER, "producer_byte_rate"),
        (USER, "controller_mutation_rate"),
        (USER, "request_percentage"),
        ({"user": "alice", "client-id": None}, "request_percentage"),
        ({"ip": "10.1.2.3"}, "connection_creation_rate"),
        ({"ip": None}, "connection_creation_rate"),
    ):
        alter(f"removal of {key}", entity, (key, None))


@scenario
def describe_client_quotas(talk: Conversation) -> None:
    entities: list[Entity] = [
        {"user": "bob"},
        {"user": "bob", "client-id": "app"},
        {"user": None},
        {"client-id": "app"},
        {"ip": "10.1.2.3"},
    ]
    for entity in entities:
        key = "connection_creation_rate" if "ip" in entity else "consumer_byte_rate"
        talk.request_quietly(Api.ALTER_CLIENT_QUOTAS, _alter(entity, (key, 123_456.0)))
    ip = _describe(("ip", EXACT, "10.1.2.3"))
    talk.until(lambda: len(talk.request_quietly(Api.DESCRIBE_CLIENT_QUOTAS, ip).entries) == 1)

    def describe(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        talk.request(label, Api.DESCRIBE_CLIENT_QUOTAS, _describe(*components, strict=strict))

    talk.request_each_version("an address", Api.DESCRIBE_CLIENT_QUOTAS, ip)
    describe("a user, strictly", ("user", EXACT, "bob"), strict=True)
    describe("user and client ID", ("user", EXACT, "bob"), ("client-id", EXACT, "app"))
    describe("any client ID of a user", ("user", EXACT, "bob"), ("client-id", SPECIFIED, None))
    describe("the default user", ("user", DEFAULT, None))
    describe("any client ID, strictly", ("client-id", SPECIFIED, None), strict=True)
    describe("an unknown user", ("user", EXACT, "eve"))
    describe("nothing, strictly", strict=True)
    describe("no type", ("", EXACT, "bob"))
    describe("unknown type", ("group", EXACT, "g"))
    describe("a type twice", ("user", EXACT, "bob"), ("user", DEFAULT, None))
    describe("exact without a name", ("user", EXACT, None))
    describe("default with a name", ("user", DEFAULT, "bob"))
    describe("specified with a name", ("user", SPECIFIED, "bob"))
    describe("unknown match type", ("user", 7, "bob"))
    describe("address and user", ("ip", EXACT, "10.1.2.3"), ("user", EXACT, "bob"))
    for entity in entities:
        key = "connection_creation_rate" if "ip" in entity else "consumer_byte_rate"
        talk.request_quietly(Api.ALTER_CLIENT_QUOTAS, _alter(entity, (key, None)))
