"""FindCoordinator, the classic group protocol, ListGroups, DescribeGroups and DeleteGroups."""

from typing import Any

from kio.schema.errors import ErrorCode

from tests.apis import Api, versions
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.kafka.side_by_side.group_member import Member

FIRST_WITH_MEMBER_ID = 4


def until_coordinated(talk: Conversation, key_type: int = 0) -> None:
    """Until the internal topic is there, and its coordinator has loaded."""

    def found() -> bool:
        response = talk.request_quietly(Api.FIND_COORDINATOR, {"key_type": key_type, "coordinator_keys": ["any"]})
        return response.coordinators[0].error_code is ErrorCode.none

    def loaded() -> bool:
        response = talk.request_quietly(Api.DESCRIBE_GROUPS, {"groups": ["any"]}, version=5)
        return response.groups[0].error_code is ErrorCode.none

    talk.until(found)
    # Gone in the end, for those who want to see all topics there are.
    talk.remember_topic("__transaction_state" if key_type else "__consumer_offsets")
    if key_type == 0:
        talk.until(loaded)


def rejoin(member: Member, version: int | None = None, **others: Any) -> Any:
    """With the id that the first try is given."""
    if version is None or version >= FIRST_WITH_MEMBER_ID:
        member.join("asks for an id", version, **others)
    return member.join("joins", version, **others)


@scenario
def find_coordinator(talk: Conversation) -> None:
    for key_type in (0, 1):
        until_coordinated(talk, key_type)
        talk.request_each_version(
            f"a key of type {key_type}",
            Api.FIND_COORDINATOR,
            {"key_type": key_type, "key": "somebody", "coordinator_keys": ["somebody"]},
        )
    talk.request("many keys", Api.FIND_COORDINATOR, {"coordinator_keys": ["a", "b", "a", ""]})
    talk.request("no key", Api.FIND_COORDINATOR, {"coordinator_keys": []})
    talk.request("an empty key", Api.FIND_COORDINATOR, {"key": ""}, version=3)
    for version in (3, 4):
        fields = {"key": "somebody", "coordinator_keys": ["somebody", "else"]}
        talk.request("share groups, too early", Api.FIND_COORDINATOR, {**fields, "key_type": 2}, version=version)
        talk.request("a type that nobody knows", Api.FIND_COORDINATOR, {**fields, "key_type": 9}, version=version)
        talk.request("a negative type", Api.FIND_COORDINATOR, {**fields, "key_type": -1}, version=version)


@scenario
def group_of_two(talk: Conversation) -> None:
    until_coordinated(talk)
    alice, bob = Member(talk, "alice", "two"), Member(talk, "bob", "two")
    rejoin(alice)
    alice.sync("syncs without assignments")
    alice.beat()
    describe(talk, "with one member", "two")
    bob.join("asks for an id")
    bob.send_join("joins")
    talk.until(lambda: state_of(talk, "two") == "PreparingRebalance")
    alice.beat("lives while others join")
    alice.sync("syncs too early")
    talk.request("the offset of alice", Api.OFFSET_COMMIT, commit_of(alice), version=9)
    alice.send_join("joins again")
    alice.receive()
    bob.receive()
    bob.send_sync("waits for the leader")
    talk.until(lambda: state_of(talk, "two") == "CompletingRebalance")
    bob_beats = Member(talk, "bob", "two")
    bob_beats.member_id, bob_beats.generation_id = bob.member_id, bob.generation_id
    bob_beats.beat("lives while the leader assigns")
    alice.sync("assigns", {alice.member_id: b"mine", bob.member_id: b"yours", "nobody": b"nothing"})
    bob.receive()
    alice.sync("syncs again")
    describe(talk, "stable", "two")
    talk.request("with filters", Api.LIST_GROUPS, {"states_filter": ["Stable"], "types_filter": ["classic"]})
    bob.leave()
    alice.beat("lives when another has left")
    alice.join("joins alone")
    alice.sync("assigns to itself", {alice.member_id: b"all"})
    alice.leave()
    alice.beat("has left")
    describe(talk, "empty", "two")
    for member in (alice, bob, bob_beats):
        member.close()


@scenario
def group_versions(talk: Conversation) -> None:
    until_coordinated(talk)
    for version in versions(Api.JOIN_GROUP):
        member = Member(talk, f"member {version}", f"version {version}")
        rejoin(member, version)
        sync_version = min(version, 5)
        member.sync("syncs", {member.member_id: b"share"}, sync_version)
        member.beat("lives", min(version, 4))
        member.leave("leaves", min(version, 5))
        member.close()
    member = Member(talk, "member", "described")
    rejoin(member)
    member.sync("syncs", {member.member_id: b"share"})
    talk.request_each_version("a group with a member", Api.DESCRIBE_GROUPS, {"groups": ["described", "not there"]})
    request = {"groups": ["described"], "include_authorized_operations": True}
    talk.request_each_version("what may be done with it", Api.DESCRIBE_GROUPS, request, start=3)
    for version in versions(Api.LIST_GROUPS):
        listed = talk.request_quietly(Api.LIST_GROUPS, {"states_filter": [], "types_filter": []}, version=version)
        for group in listed.groups:
            if group.group_id == "described":
                talk.write(f"list_groups v{version}", group)
    member.leave()
    member.close()


@scenario
def group_refused(talk: Conversation) -> None:
    until_coordinated(talk)
    stranger = Member(talk, "nobody", "refused")
    for version in (0, 3, 9):
        stranger.join("names an id that nobody has", version, member_id="somebody-else")
    stranger.join("joins without a group", group_id="", member_id="")
    stranger.join("joins for too short", session_timeout=100, member_id="")
    stranger.join("joins for too long", session_timeout=10_000_000, member_id="")
    stranger.join("joins for a negative time", session_timeout=-1, member_id="")
    stranger.join("knows no protocol", protocols=[], member_id="")
    stranger.join("knows no type", protocol_type="", member_id="")
    stranger.member_id, stranger.generation_id = "", -1
    stranger.beat("lives nowhere")
    stranger.beat("lives without a group", group_id="")
    stranger.sync("syncs nowhere")
    stranger.sync("syncs without a group", group_id="")
    stranger.sync("names no protocol", protocol_name=None)
    stranger.sync("names no type", protocol_type=None)
    stranger.leave("leaves what it is not in")
    stranger.leave("leaves what it is not in", 2)
    stranger.request("takes nobody with it", Api.LEAVE_GROUP, {"members": []})
    stranger.request("leaves without a group", Api.LEAVE_GROUP, {"group_id": "", "members": [{"member_id": "x"}]})
    member_of_group = Member(talk, "somebody", "taken")
    rejoin(member_of_group)
    member_of_group.sync()
    stranger.group_id = "taken"
    stranger.join("is of another type", protocol_type="connect")
    stranger.join("knows another protocol", protocols=[{"name": "other", "metadata": b""}])
    stranger.beat("is unknown", member_id="somebody-else", generation_id=1)
    stranger.sync("is unknown", member_id="somebody-else", generation_id=1)
    member_of_group.beat("comes from the future", generation_id=7)
    member_of_group.beat("comes from the past", generation_id=0)
    member_of_group.sync("comes from the future", generation_id=7)
    member_of_group.sync("is of another type", protocol_type="connect")
    member_of_group.sync("goes by another protocol", protocol_name="other")
    member_of_group.beat("has an instance id that nobody knows", group_instance_id="x")
    member_of_group.request(
        "leaves with strangers",
        Api.LEAVE_GROUP,
        {"members": [{"member_id": "stranger"}, {"member_id": "", "group_instance_id": "x"}]},
    )
    member_of_group.leave()
    for member in (stranger, member_of_group):
        member.close()


@scenario
def group_static_members(talk: Conversation) -> None:
    until_coordinated(talk)
    first = Member(talk, "first life", "static", instance_id="one")
    first.join("joins at once")
    first.sync("assigns", {first.member_id: b"share"})
    second = Member(talk, "second life", "static", instance_id="one")
    second.join("comes back")
    second.sync("syncs after it came back")
    first.beat("was fenced")
    first.sync("was fenced")
    first.join("was fenced")
    talk.request("by who was fenced", Api.OFFSET_COMMIT, commit_of(first), version=9)
    describe(talk, "static", "static")
    second.request("is sent away", Api.LEAVE_GROUP, {"members": [{"member_id": "", "group_instance_id": "one"}]})
    second.beat("was sent away")
    for member in (first, second):
        member.close()


@scenario
def group_deletion(talk: Conversation) -> None:
    until_coordinated(talk)
    member = Member(talk, "member", "doomed")
    rejoin(member)
    member.sync()
    request = {"groups_names": ["doomed", "not there", "doomed", ""]}
    talk.request_each_version("with a member", Api.DELETE_GROUPS, request)
    member.leave()
    talk.request("empty", Api.DELETE_GROUPS, request)
    talk.request("gone", Api.DELETE_GROUPS, request)
    talk.request("nothing", Api.DELETE_GROUPS, {"groups_names": []})
    describe(talk, "deleted", "doomed")
    talk.request("of a state that there is not", Api.LIST_GROUPS, {"states_filter": ["Nowhere"]})
    talk.request("of a kind that there is not", Api.LIST_GROUPS, {"types_filter": ["nothing"]})
    member.close()


def describe(talk: Conversation, label: str, group_id: str) -> None:
    talk.request(label, Api.DESCRIBE_GROUPS, {"groups": [group_id]})


def state_of(talk: Conversation, group_id: str) -> str:
    return str(talk.request_quietly(Api.DESCRIBE_GROUPS, {"groups": [group_id]}).groups[0].group_state)


def commit_of(member: Member, topic: str = "not there") -> dict[str, Any]:
    return {
        "group_id": member.group_id,
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "generation_id_or_member_epoch": member.generation_id,
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
