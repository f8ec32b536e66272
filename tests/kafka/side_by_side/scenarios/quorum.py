"""DescribeQuorum, AddRaftVoter and RemoveRaftVoter, sent to a broker, which forwards them to the active controller."""

from typing import Any
from uuid import UUID

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario

METADATA_TOPIC = "__cluster_metadata"
DIRECTORY = UUID(int=0xFEED)
LISTENER = {"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}


def _about(topic: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"topic_name": topic, "partitions": [{"partition_index": index} for index in partitions]}]}


@scenario
def describe_quorum_refused(talk: Conversation) -> None:
    for label, fields in (
        ("of nothing", {"topics": []}),
        ("of another topic", _about("orders", 0)),
        ("of a partition that is not there", _about(METADATA_TOPIC, 1)),
        ("of two partitions", _about(METADATA_TOPIC, 0, 1)),
        ("of no partition", _about(METADATA_TOPIC)),
    ):
        talk.request_each_version(label, Api.DESCRIBE_QUORUM, fields)


@scenario
def voters_refused(talk: Conversation) -> None:
    voter = {"timeout": 1000, "voter_id": 9, "voter_directory_id": DIRECTORY, "listeners": [LISTENER]}
    for label, change in (
        ("without listeners", {"listeners": []}),
        ("without the right listener", {"listeners": [{**LISTENER, "name": "OTHER"}]}),
        ("to another cluster", {"cluster_id": "another"}),
        ("without a directory", {"voter_directory_id": None}),
        ("of a negative id", {"voter_id": -9}),
    ):
        talk.request_each_version(f"a voter {label}", Api.ADD_RAFT_VOTER, {**voter, **change})
    for label, change in (
        ("from another cluster", {"cluster_id": "another"}),
        ("without a directory", {"voter_directory_id": None}),
    ):
        talk.request(f"a voter {label}", Api.REMOVE_RAFT_VOTER, {**voter, **change})
