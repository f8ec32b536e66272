"""ElectLeaders and reassignment, as far as one broker allows."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario

PREFERRED, UNCLEAN = 0, 1


def _elect(topics: Mapping[str, Sequence[int]] | None, kind: int = PREFERRED) -> dict[str, Any]:
    named = None if topics is None else [{"topic": name, "partitions": parts} for name, parts in topics.items()]
    return {"election_type": kind, "topic_partitions": named, "timeout": 10_000}


@scenario
def elect_leaders(talk: Conversation) -> None:
    talk.create_topic("led", partitions=2)
    for kind, name in ((PREFERRED, "preferred"), (UNCLEAN, "unclean")):
        talk.request_each_version(f"{name}, of a partition that is led", Api.ELECT_LEADERS, _elect({"led": [0]}, kind))
        talk.request_each_version(f"{name}, of all", Api.ELECT_LEADERS, _elect(None, kind))
        talk.request(f"{name}, one twice", Api.ELECT_LEADERS, _elect({"led": [0, 1, 0]}, kind))
        talk.request(f"{name}, of none", Api.ELECT_LEADERS, _elect({}, kind))
        talk.request(f"{name}, of no partition", Api.ELECT_LEADERS, _elect({"led": []}, kind))
        talk.request(f"{name}, of what is not there", Api.ELECT_LEADERS, _elect({"led": [2, -1], "nowhere": [0]}, kind))
    for kind in (2, -1, 127):
        talk.request_each_version(f"of kind {kind}", Api.ELECT_LEADERS, _elect({"led": [0]}, kind), start=1)
        talk.request(f"of kind {kind}, of all", Api.ELECT_LEADERS, _elect(None, kind))
        talk.request(f"of kind {kind}, of none", Api.ELECT_LEADERS, _elect({}, kind))


def _move(topics: Mapping[str, Mapping[int, Sequence[int] | None]], *, resize: bool = True) -> dict[str, Any]:
    return {
        "timeout": 10_000,
        "allow_replication_factor_change": resize,
        "topics": [
            {"name": name, "partitions": [{"partition_index": key, "replicas": to} for key, to in moves.items()]}
            for name, moves in topics.items()
        ],
    }


def _list(topics: Mapping[str, Sequence[int]] | None) -> dict[str, Any]:
    named = None if topics is None else [{"name": name, "partition_indexes": parts} for name, parts in topics.items()]
    return {"timeout": 10_000, "topics": named}


@scenario
def move_partitions(talk: Conversation) -> None:
    talk.create_topic("moved", partitions=2)
    api = Api.ALTER_PARTITION_REASSIGNMENTS
    cases: dict[str, Mapping[str, Mapping[int, Sequence[int] | None]]] = {
        "where it is": {"moved": {0: [1]}},
        "to nobody": {"moved": {0: []}},
        "to a broker that is not there": {"moved": {0: [1, 7]}},
        "twice to one broker": {"moved": {0: [1, 1]}},
        "to a broker that cannot be": {"moved": {0: [-1]}},
        "called off, though not begun": {"moved": {0: None, 1: None}},
        "what is not there": {"moved": {2: [1], -1: None}, "nowhere": {0: [1]}},
        "no partition": {"moved": {}},
        "nothing": {},
    }
    for label, topics in cases.items():
        talk.request_each_version(label, api, _move(topics))
        talk.request(f"{label}, with as many replicas as before", api, _move(topics, resize=False))


@scenario
def list_moves(talk: Conversation) -> None:
    talk.create_topic("still", partitions=2)
    api = Api.LIST_PARTITION_REASSIGNMENTS
    for label, topics in (
        ("of all", None),
        ("of none", {}),
        ("of a topic that rests", {"still": [0, 1]}),
        ("of no partition", {"still": []}),
        ("of what is not there", {"still": [2, -1], "nowhere": [0]}),
    ):
        talk.request_each_version(label, api, _list(topics))
