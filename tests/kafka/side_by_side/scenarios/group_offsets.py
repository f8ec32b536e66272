"""OffsetCommit, OffsetFetch and OffsetDelete."""

from typing import Any
from uuid import UUID

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.kafka.side_by_side.group_member import Member
from tests.kafka.side_by_side.scenarios.groups import commit_of, rejoin, until_coordinated

STRANGE_ID = UUID("11111111-2222-4333-8444-555555555555")


def partitions(*offsets: tuple[int, int], metadata: str | None = None) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index, offset in offsets
    ]


def commit(group_id: str, *topics: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **others}


def wanted(group_id: str, topics: list[dict[str, Any]] | None, **others: Any) -> dict[str, Any]:
    """For the versions of one group and of many."""
    return {"group_id": group_id, "topics": topics, "groups": [{"group_id": group_id, "topics": topics}], **others}


@scenario
def offset_commits(talk: Conversation) -> None:
    topic_id = talk.create_topic("committed", partitions=3)
    until_coordinated(talk)

    def by_version(version: int) -> dict[str, Any]:
        topic = {"name": "committed", "topic_id": topic_id, "partitions": partitions((0, version), (7, 1))}
        return commit("simple", topic, retention_time=-1)

    talk.request_each_version("without a member", Api.OFFSET_COMMIT, by_version)
    everything = [{"name": "committed", "topic_id": topic_id, "partition_indexes": [0, 1, 7]}]
    talk.request_each_version("what was committed", Api.OFFSET_FETCH, wanted("simple", everything))
    talk.request_each_version("everything", Api.OFFSET_FETCH, wanted("simple", None), start=2)
    talk.request_each_version("of nobody", Api.OFFSET_FETCH, wanted("nobody", everything))
    talk.request_each_version("all of nobody", Api.OFFSET_FETCH, wanted("nobody", None), start=2)
    topic = {"name": "committed", "partitions": partitions((1, 5), metadata="a" * 4096)}
    talk.request("long metadata", Api.OFFSET_COMMIT, commit("simple", topic), version=9)
    topic = {"name": "committed", "partitions": partitions((0, 9), (1, 6), metadata="a" * 4097)}
    talk.request("too long metadata", Api.OFFSET_COMMIT, commit("simple", topic), version=9)
    topic = {"name": "committed", "partitions": partitions((2, -1))}
    talk.request("a negative offset", Api.OFFSET_COMMIT, commit("simple", topic), version=9)
    talk.request(
        "no partition", Api.OFFSET_COMMIT, commit("simple", {"name": "committed", "partitions": []}), version=9
    )
    talk.request("no topic", Api.OFFSET_COMMIT, commit("simple"), version=9)
    missing = {"name": "missing", "partitions": partitions((0, 1))}
    known = {"name": "committed", "partitions": partitions((2, 3))}
    talk.request("one topic that is not there", Api.OFFSET_COMMIT, commit("simple", missing, known), version=9)
    strange = {"topic_id": STRANGE_ID, "partitions": partitions((0, 1))}
    known = {"topic_id": topic_id, "partitions": partitions((2, 4), (9, 1))}
    talk.request("an id that nobody knows", Api.OFFSET_COMMIT, commit("simple", strange, known))
    talk.request("only an id that nobody knows", Api.OFFSET_COMMIT, commit("simple", strange))
    zero = {"topic_id": None, "partitions": partitions((0, 1))}
    talk.request("no id", Api.OFFSET_COMMIT, commit("simple", zero))
    talk.request("an empty group", Api.OFFSET_COMMIT, commit("", known))
    talk.request("everything of the empty group", Api.OFFSET_FETCH, wanted("", None))
    talk.request("all in the end", Api.OFFSET_FETCH, wanted("simple", None))
    topics = [{"topic_id": topic_id, "partition_indexes": [0]}, {"topic_id": STRANGE_ID, "partition_indexes": [0, 1]}]
    groups = [{"group_id": "simple", "topics": topics}, {"group_id": "nobody", "topics": topics[:1]}]
    talk.request("of several groups", Api.OFFSET_FETCH, {"groups": groups})
    talk.request("of several groups, stable", Api.OFFSET_FETCH, {"groups": groups, "require_stable": True})
    talk.request("of no group", Api.OFFSET_FETCH, {"groups": []})
    talk.request("no topics", Api.OFFSET_FETCH, wanted("simple", []))


@scenario
def offset_commits_of_members(talk: Conversation) -> None:
    talk.create_topic("by-members")
    until_coordinated(talk)
    member = Member(talk, "member", "committing")
    rejoin(member)
    member.sync()
    talk.request("a member", Api.OFFSET_COMMIT, commit_of(member, "by-members"), version=9)
    for label, others in (
        ("from the future", {"generation_id_or_member_epoch": 9}),
        ("from the past", {"generation_id_or_member_epoch": 0}),
        ("a stranger", {"member_id": "stranger"}),
        ("without a generation", {"generation_id_or_member_epoch": -1}),
        ("nobody", {"generation_id_or_member_epoch": -1, "member_id": ""}),
        ("an instance that nobody knows", {"group_instance_id": "x"}),
        ("of a group that is not there", {"group_id": "not there"}),
    ):
        for version in (5, 8, 9):
            fields = {**commit_of(member, "by-members"), **others}
            talk.request(label, Api.OFFSET_COMMIT, fields, version=version)
    member.leave()
    talk.request(
        "nobody, when all have left",
        Api.OFFSET_COMMIT,
        commit("committing", {"name": "by-members", "partitions": partitions((0, 5))}),
        version=9,
    )
    talk.request("what is left", Api.OFFSET_FETCH, wanted("committing", None), version=9)
    member.close()


@scenario
def offset_deletion(talk: Conversation) -> None:
    talk.create_topic("forgotten", partitions=2)
    until_coordinated(talk)
    topic = {"name": "forgotten", "partitions": partitions((0, 5), (1, 6))}
    talk.request("committed", Api.OFFSET_COMMIT, commit("forgetful", topic), version=9)
    request = {"name": "forgotten", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}
    missing = {"name": "missing", "partitions": [{"partition_index": 0}]}
    talk.request("one of two", Api.OFFSET_DELETE, {"group_id": "forgetful", "topics": [request, missing]})
    talk.request("again", Api.OFFSET_DELETE, {"group_id": "forgetful", "topics": [request]})
    talk.request("nothing", Api.OFFSET_DELETE, {"group_id": "forgetful", "topics": []})
    talk.request("of nobody", Api.OFFSET_DELETE, {"group_id": "nobody", "topics": [request, missing]})
    talk.request("of the empty group", Api.OFFSET_DELETE, {"group_id": "", "topics": [request]})
    talk.request("what is left", Api.OFFSET_FETCH, wanted("forgetful", None), version=9)
    talk.request("the group", Api.DELETE_GROUPS, {"groups_names": ["forgetful"]})
    talk.request("when all is gone", Api.OFFSET_FETCH, wanted("forgetful", None), version=9)


@scenario
def offsets_of_deleted_topics(talk: Conversation) -> None:
    talk.create_topic("doomed-topic")
    until_coordinated(talk)
    topic = {"name": "doomed-topic", "partitions": partitions((0, 5))}
    talk.request("committed", Api.OFFSET_COMMIT, commit("bereft", topic), version=9)
    talk.request_quietly(Api.DELETE_TOPICS, {"topic_names": ["doomed-topic"], "timeout": 10_000}, version=4)
    talk.until_gone("doomed-topic")
    talk.until(lambda: not talk.request_quietly(Api.OFFSET_FETCH, wanted("bereft", None), version=9).groups[0].topics)
    request = [{"name": "doomed-topic", "partition_indexes": [0]}]
    talk.request("of a topic that is gone", Api.OFFSET_FETCH, wanted("bereft", request), version=9)
    talk.request("to a topic that is gone", Api.OFFSET_COMMIT, commit("bereft", topic), version=9)
    talk.request("the group is left", Api.DESCRIBE_GROUPS, {"groups": ["bereft"]})
