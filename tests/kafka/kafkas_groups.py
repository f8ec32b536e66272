"""Runs Apache Kafka's group coordinator with our commands, and returns our responses."""

import base64
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import uuid_from_text, uuid_to_text
from odradek.core.groups.commands import (
    AssignedTopic,
    CommitOffsets,
    CommitOffsetsInTransaction,
    CommitResponse,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DeleteGroups,
    DeleteGroupsResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    FetchedPartition,
    FetchedTopic,
    FetchOffsets,
    FetchOffsetsResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    LeftMember,
    ListedGroup,
    PartitionError,
    Response,
    SyncGroup,
    SyncResponse,
    TopicErrors,
    TopicIdPartitions,
)
from odradek.core.groups.coordinator import Command
from odradek.core.groups.offsets import rejected_commit
from odradek.core.groups.records import GroupRecord, decode
from odradek.core.groups.settings import Bounds, GroupSettings
from tests.kafka.java_program import JavaProgram
from tests.unit.core.groups.cluster import Cluster


class Step:
    """What one request made the coordinator do."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.records: list[GroupRecord] = [
            decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
            for key, value in told["records"]
        ]
        self.responses: dict[int, Response] = {}
        self.member_ids: list[str] = told.get("members", [])
        self.state: str | None = told.get("state")


class KafkasGroups:
    def __init__(self, libs: Path, settings: GroupSettings, now_ms: int) -> None:
        self._program = JavaProgram(libs, "GroupShard")
        self._asked: dict[int, Command] = {}
        self.looks_again = False
        """With each request Kafka looks anew at who wants which topics, as it does when these have changed."""
        self.start(settings, now_ms)

    def start(self, settings: GroupSettings, now_ms: int) -> None:
        """A coordinator of an empty log."""
        self.now_ms = now_ms
        self._asked.clear()
        configs = {
            "group.max.size": settings.classic_group_max_size,
            "group.initial.rebalance.delay.ms": settings.initial_rebalance_delay_ms,
            "group.min.session.timeout.ms": settings.min_session_timeout_ms,
            "group.max.session.timeout.ms": settings.max_session_timeout_ms,
            "offset.metadata.max.bytes": settings.offset_metadata_max_bytes,
            "offsets.retention.minutes": settings.offsets_retention_ms // 60_000,
            "group.consumer.max.size": settings.consumer_group_max_size,
            "group.consumer.migration.policy": settings.consumer_migration_policy.value,
            "group.consumer.assignors": ",".join(settings.consumer_assignors),
            "group.consumer.regex.refresh.interval.ms": settings.consumer_regex_refresh_interval_ms,
            **_bounds("session.timeout", settings.consumer_session_timeout),
            **_bounds("heartbeat.interval", settings.consumer_heartbeat_interval),
            **_bounds("assignment.interval", settings.consumer_assignment_interval),
        }
        self._ask(do="start", settings={name: str(value) for name, value in configs.items()})

    def send(self, command: Command, token: int) -> Step:
        self._asked[token] = command
        told = self._ask(token=token, **_request(command))
        if "error" in told:
            refused = {"refused": ErrorCode[told["error"].lower()], "message": told.get("message")}
            told["answers"].append([token, refused])
        return self._step(told)

    def commit(self, group_id: str) -> Step:
        return self._step(self._ask(do="commit", group=group_id))

    def failover(self) -> None:
        self._asked.clear()
        self._ask(do="failover")

    def run_deadlines(self, group_id: str) -> Step:
        return self._step(self._ask(do="time", group=group_id))

    def expire_offsets(self, group_id: str) -> Step:
        return self._step(self._ask(do="expire-offsets", group=group_id))

    def end_transaction(self, producer_id: int, *, commits: bool) -> Step:
        return self._step(self._ask(do="end-transaction", producer=producer_id, commits=commits))

    def describe_groups(self, group_ids: list[str], version: int) -> tuple[DescribedGroup, ...]:
        ((_, told),) = self._ask(do="describe", version=version, request=group_ids)["answers"]
        return tuple(
            DescribedGroup(
                group["groupId"],
                ErrorCode(group["errorCode"]),
                group["errorMessage"],
                group["groupState"],
                group["protocolType"],
                group["protocolData"],
                tuple(
                    DescribedMember(
                        member["memberId"],
                        member["groupInstanceId"],
                        member["clientId"],
                        member["clientHost"],
                        base64.b64decode(member["memberMetadata"]),
                        base64.b64decode(member["memberAssignment"]),
                    )
                    for member in sorted(group["members"], key=lambda one: str(one["memberId"]))
                ),
            )
            for group in told["groups"]
        )

    def describe_consumer_groups(self, group_ids: list[str]) -> list[DescribedConsumerGroup]:
        ((_, told),) = self._ask(do="describe-consumers", request=group_ids)["answers"]
        return [_consumer_group(group) for group in told["groups"]]

    def change_topics(self, cluster: Cluster) -> None:
        topics = [
            {
                "name": name,
                "id": uuid_to_text(cluster.id_of(name)),
                "racks": [list(racks) for racks in cluster.racks(cluster.topic(name))],
            }
            for name in cluster.names()
        ]
        self._ask(do="topics", request={"version": cluster.version, "topics": topics})

    def change_configs(self, group_id: str, configs: dict[str, str]) -> None:
        self._ask(do="configs", request={"group": group_id, "configs": configs})

    def list_groups(self, states: list[str], kinds: list[str]) -> list[ListedGroup]:
        ((_, told),) = self._ask(do="list", request={"states": states, "types": kinds})["answers"]
        return sorted(
            ListedGroup(group["groupId"], group["protocolType"], group["groupState"], group["groupType"])
            for group in told["groups"]
        )

    def _step(self, told: dict[str, Any]) -> Step:
        step = Step(told)
        for token, response in told["answers"]:
            step.responses[token] = _answer(self._asked.pop(token), response)
        return step

    def _ask(self, **request: Any) -> dict[str, Any]:
        (line,) = self._program.ask(json.dumps({"now": self.now_ms, "looks-again": self.looks_again, **request}))
        told: dict[str, Any] = json.loads(line)
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.__exit__(kind, error, trace)


# ---- commands to Kafka's requests


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _request(command: Command) -> dict[str, Any]:
    match command:
        case JoinGroup():
            request: dict[str, Any] = {
                "groupId": command.group_id,
                "sessionTimeoutMs": command.session_timeout_ms,
                "rebalanceTimeoutMs": command.rebalance_timeout_ms,
                "memberId": command.member_id,
                "groupInstanceId": command.instance_id,
                "protocolType": command.protocol_type,
                "protocols": [{"name": one.name, "metadata": _text(one.metadata)} for one in command.protocols],
                "reason": command.reason,
            }
            about = {"version": command.version, "client": command.client_id, "group": command.group_id}
            return {"do": "join", "request": request, **about}
        case SyncGroup():
            request = {
                "groupId": command.group_id,
                "generationId": command.generation_id,
                "memberId": command.member_id,
                "groupInstanceId": command.instance_id,
                "protocolType": command.protocol_type,
                "protocolName": command.protocol_name,
                "assignments": [
                    {"memberId": member_id, "assignment": _text(data)} for member_id, data in command.assignments
                ],
            }
            return {"do": "sync", "request": request}
        case Heartbeat():
            request = {
                "groupId": command.group_id,
                "generationId": command.generation_id,
                "memberId": command.member_id,
                "groupInstanceId": command.instance_id,
            }
            return {"do": "heartbeat", "request": request}
        case LeaveGroup():
            members = [
                {"memberId": one.member_id, "groupInstanceId": one.instance_id, "reason": one.reason}
                for one in command.members
            ]
            return {"do": "leave", "request": {"groupId": command.group_id, "members": members}}
        case ConsumerGroupHeartbeat():
            request = {
                "groupId": command.group_id,
                "memberId": command.member_id,
                "memberEpoch": command.member_epoch,
                "instanceId": command.instance_id,
                "rackId": command.rack_id,
                "rebalanceTimeoutMs": command.rebalance_timeout_ms,
                "subscribedTopicNames": None if command.topic_names is None else list(command.topic_names),
                "subscribedTopicRegex": command.topic_regex,
                "serverAssignor": command.server_assignor,
                "topicPartitions": None
                if command.owned is None
                else [
                    {"topicId": uuid_to_text(one.topic_id), "partitions": list(one.partitions)} for one in command.owned
                ],
            }
            return {
                "do": "consumer-heartbeat",
                "request": request,
                "version": command.version,
                "client": command.client_id,
            }
        case CommitOffsets():
            request = {
                "groupId": command.group_id,
                "generationIdOrMemberEpoch": command.generation_id,
                "memberId": command.member_id,
                "groupInstanceId": command.instance_id,
                "topics": _topics(command.topics),
            }
            return {"do": "commit-offsets", "version": command.version, "request": request}
        case CommitOffsetsInTransaction():
            request = {
                "transactionalId": "t",
                "groupId": command.group_id,
                "producerId": command.producer_id,
                "producerEpoch": command.producer_epoch,
                "generationId": command.generation_id,
                "memberId": command.member_id,
                "groupInstanceId": command.instance_id,
                "topics": _topics(command.topics),
            }
            return {"do": "commit-in-transaction", "producer": command.producer_id, "request": request}
        case FetchOffsets():
            topics = command.topics
            group = {
                "groupId": command.group_id,
                "memberId": command.member_id,
                "memberEpoch": command.member_epoch,
                "topics": None
                if topics is None
                else [{"name": one.topic, "partitionIndexes": list(one.partitions)} for one in topics],
            }
            request = {"groups": [group], "requireStable": command.require_stable}
            return {"do": "fetch", "stable": command.require_stable, "request": request}
        case DeleteOffsets():
            request = {
                "groupId": command.group_id,
                "topics": [
                    {"name": one.topic, "partitions": [{"partitionIndex": index} for index in one.partitions]}
                    for one in command.topics
                ],
            }
            return {"do": "delete-offsets", "request": request}
        case DeleteGroups():
            return {"do": "delete-groups", "request": list(command.group_ids)}


def _topics(topics: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.topic,
            "partitions": [
                {
                    "partitionIndex": partition.partition,
                    "committedOffset": partition.offset,
                    "committedLeaderEpoch": partition.leader_epoch,
                    "committedMetadata": partition.metadata,
                }
                for partition in topic.partitions
            ],
        }
        for topic in topics
    ]


# ---- from Kafka's responses


def _answer(command: Command, told: dict[str, Any]) -> Response:
    refused: ErrorCode | None = told.get("refused")
    error = ErrorCode(told.get("errorCode", 0)) if refused is None else refused
    match command:
        case JoinGroup() if refused is not None:
            return JoinResponse(refused, "")
        case SyncGroup() if refused is not None:
            return SyncResponse(refused)
        case FetchOffsets() if refused is not None:
            return FetchOffsetsResponse(command.group_id, refused)
        case ConsumerGroupHeartbeat() if refused is not None:
            return ConsumerGroupHeartbeatResponse(refused, told["message"])
        case ConsumerGroupHeartbeat():
            assignment = told["assignment"]
            return ConsumerGroupHeartbeatResponse(
                error,
                told["errorMessage"],
                told["memberId"],
                told["memberEpoch"],
                told["heartbeatIntervalMs"],
                None
                if assignment is None
                else tuple(
                    TopicIdPartitions(uuid_from_text(one["topicId"]), tuple(one["partitions"]))
                    for one in assignment["topicPartitions"]
                ),
            )
        case JoinGroup():
            return JoinResponse(
                error,
                told["memberId"],
                told["generationId"],
                told["protocolType"],
                told["protocolName"],
                told["leader"],
                told["skipAssignment"],
                tuple(
                    JoinedMember(one["memberId"], one["groupInstanceId"], base64.b64decode(one["metadata"]))
                    for one in told["members"]
                ),
            )
        case SyncGroup():
            return SyncResponse(error, told["protocolType"], told["protocolName"], base64.b64decode(told["assignment"]))
        case Heartbeat():
            return HeartbeatResponse(error)
        case LeaveGroup() if refused is ErrorCode.unknown_member_id:
            # The service around the coordinator's shard says it so.
            left = tuple(LeftMember(one.member_id, one.instance_id, refused) for one in command.members)
            return LeaveResponse(ErrorCode.none, left)
        case LeaveGroup():
            members = tuple(
                LeftMember(one["memberId"], one["groupInstanceId"], ErrorCode(one["errorCode"]))
                for one in told["members"]
            )
            return LeaveResponse(error, members)
        case CommitOffsets() | CommitOffsetsInTransaction():
            if refused is not None:
                return rejected_commit(command.topics, refused)
            return CommitResponse(_topic_errors(told["topics"]))
        case FetchOffsets():
            (group,) = told["groups"]
            return FetchOffsetsResponse(group["groupId"], ErrorCode(group["errorCode"]), _fetched(group["topics"]))
        case DeleteOffsets():
            return DeleteOffsetsResponse(error, _topic_errors(told.get("topics", ())))
        case DeleteGroups():
            results = ((one["groupId"], ErrorCode(one["errorCode"])) for one in told["results"])
            return DeleteGroupsResponse(tuple(results))


def _topic_errors(topics: Any) -> tuple[TopicErrors, ...]:
    return tuple(
        TopicErrors(
            topic["name"],
            tuple(PartitionError(one["partitionIndex"], ErrorCode(one["errorCode"])) for one in topic["partitions"]),
        )
        for topic in topics
    )


def _fetched(topics: Any) -> tuple[FetchedTopic, ...]:
    return tuple(
        FetchedTopic(
            topic["name"],
            tuple(
                FetchedPartition(
                    one["partitionIndex"],
                    one["committedOffset"],
                    one["committedLeaderEpoch"],
                    one["metadata"],
                    ErrorCode(one["errorCode"]),
                )
                for one in topic["partitions"]
            ),
        )
        for topic in topics
    )


def _consumer_group(group: dict[str, Any]) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group["groupId"],
        ErrorCode(group["errorCode"]),
        group["errorMessage"],
        group["groupState"],
        group["groupEpoch"],
        group["assignmentEpoch"],
        group["assignorName"],
        tuple(
            DescribedConsumer(
                member["memberId"],
                member["instanceId"],
                member["rackId"],
                member["memberEpoch"],
                member["clientId"],
                member["clientHost"],
                tuple(sorted(member["subscribedTopicNames"])),
                member["subscribedTopicRegex"],
                _assigned(member["assignment"]),
                _assigned(member["targetAssignment"]),
                member["memberType"] == 0,
            )
            for member in group["members"]
        ),
    )


def _assigned(assignment: dict[str, Any]) -> tuple[AssignedTopic, ...]:
    return tuple(
        AssignedTopic(uuid_from_text(one["topicId"]), one["topicName"], tuple(sorted(one["partitions"])))
        for one in assignment["topicPartitions"]
    )


def _bounds(name: str, bounds: Bounds) -> dict[str, int]:
    return {
        f"group.consumer.{name}.ms": bounds.default,
        f"group.consumer.min.{name}.ms": bounds.least,
        f"group.consumer.max.{name}.ms": bounds.most,
    }


def uuid_of(member_id: str) -> UUID:
    """Members by the classic protocol are named by their client's id and a uuid, those of consumer groups by one."""
    return UUID(member_id[-36:]) if len(member_id) > 36 else uuid_from_text(member_id)
