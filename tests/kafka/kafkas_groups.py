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
    """The records, responses and state that result from one request."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.records: list[GroupRecord] = [
            decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
            for key, value in reply["records"]
        ]
        self.responses: dict[int, Response] = {}
        self.member_ids: list[str] = reply.get("members", [])
        self.state: str | None = reply.get("state")


class KafkasGroups:
    def __init__(self, libs: Path, settings: GroupSettings, now_ms: int) -> None:
        self._program = JavaProgram(libs, "GroupShard")
        self._pending: dict[int, Command] = {}
        self.looks_again = False
        """Whether Kafka recomputes the subscriptions with each request, as it does after topics change."""
        self.start(settings, now_ms)

    def start(self, settings: GroupSettings, now_ms: int) -> None:
        """Start a coordinator with an empty log."""
        self.now_ms = now_ms
        self._pending.clear()
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
        self._send(do="start", settings={name: str(value) for name, value in configs.items()})

    def send(self, command: Command, token: int) -> Step:
        self._pending[token] = command
        reply = self._send(token=token, **_request(command))
        if "error" in reply:
            refused = {"refused": ErrorCode[reply["error"].lower()], "message": reply.get("message")}
            reply["answers"].append([token, refused])
        return self._step(reply)

    def commit(self, group_id: str) -> Step:
        return self._step(self._send(do="commit", group=group_id))

    def failover(self) -> None:
        self._pending.clear()
        self._send(do="failover")

    def run_deadlines(self, group_id: str) -> Step:
        return self._step(self._send(do="time", group=group_id))

    def expire_offsets(self, group_id: str) -> Step:
        return self._step(self._send(do="expire-offsets", group=group_id))

    def end_transaction(self, producer_id: int, *, commits: bool) -> Step:
        return self._step(self._send(do="end-transaction", producer=producer_id, commits=commits))

    def describe_groups(self, group_ids: list[str], version: int) -> tuple[DescribedGroup, ...]:
        ((_, reply),) = self._send(do="describe", version=version, request=group_ids)["answers"]
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
            for group in reply["groups"]
        )

    def describe_consumer_groups(self, group_ids: list[str]) -> list[DescribedConsumerGroup]:
        ((_, reply),) = self._send(do="describe-consumers", request=group_ids)["answers"]
        return [_consumer_group(group) for group in reply["groups"]]

    def change_topics(self, cluster: Cluster) -> None:
        topics = [
            {
                "name": name,
                "id": uuid_to_text(cluster.id_of(name)),
                "racks": [list(racks) for racks in cluster.racks(cluster.topic(name))],
            }
            for name in cluster.names()
        ]
        self._send(do="topics", request={"version": cluster.version, "topics": topics})

    def change_configs(self, group_id: str, configs: dict[str, str]) -> None:
        self._send(do="configs", request={"group": group_id, "configs": configs})

    def list_groups(self, states: list[str], kinds: list[str]) -> list[ListedGroup]:
        ((_, reply),) = self._send(do="list", request={"states": states, "types": kinds})["answers"]
        return sorted(
            ListedGroup(group["groupId"], group["protocolType"], group["groupState"], group["groupType"])
            for group in reply["groups"]
        )

    def _step(self, reply: dict[str, Any]) -> Step:
        step = Step(reply)
        for token, response in reply["answers"]:
            step.responses[token] = _response(self._pending.pop(token), response)
        return step

    def _send(self, **request: Any) -> dict[str, Any]:
        (line,) = self._program.request(json.dumps({"now": self.now_ms, "looks-again": self.looks_again, **request}))
        reply: dict[str, Any] = json.loads(line)
        return reply

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


def _response(command: Command, reply: dict[str, Any]) -> Response:
    refused: ErrorCode | None = reply.get("refused")
    error = ErrorCode(reply.get("errorCode", 0)) if refused is None else refused
    match command:
        case JoinGroup() if refused is not None:
            return JoinResponse(refused, "")
        case SyncGroup() if refused is not None:
            return SyncResponse(refused)
        case FetchOffsets() if refused is not None:
            return FetchOffsetsResponse(command.group_id, refused)
        case ConsumerGroupHeartbeat() if refused is not None:
            return ConsumerGroupHeartbeatResponse(refused, reply["message"])
        case ConsumerGroupHeartbeat():
            assignment = reply["assignment"]
            return ConsumerGroupHeartbeatResponse(
                error,
                reply["errorMessage"],
                reply["memberId"],
                reply["memberEpoch"],
                reply["heartbeatIntervalMs"],
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
                reply["memberId"],
                reply["generationId"],
                reply["protocolType"],
                reply["protocolName"],
                reply["leader"],
                reply["skipAssignment"],
                tuple(
                    JoinedMember(one["memberId"], one["groupInstanceId"], base64.b64decode(one["metadata"]))
                    for one in reply["members"]
                ),
            )
        case SyncGroup():
            return SyncResponse(
                error, reply["protocolType"], reply["protocolName"], base64.b64decode(reply["assignment"])
            )
        case Heartbeat():
            return HeartbeatResponse(error)
        case LeaveGroup() if refused is ErrorCode.unknown_member_id:
            # The service around Kafka's coordinator shard sets this error.
            left = tuple(LeftMember(one.member_id, one.instance_id, refused) for one in command.members)
            return LeaveResponse(ErrorCode.none, left)
        case LeaveGroup():
            members = tuple(
                LeftMember(one["memberId"], one["groupInstanceId"], ErrorCode(one["errorCode"]))
                for one in reply["members"]
            )
            return LeaveResponse(error, members)
        case CommitOffsets() | CommitOffsetsInTransaction():
            if refused is not None:
                return rejected_commit(command.topics, refused)
            return CommitResponse(_topic_errors(reply["topics"]))
        case FetchOffsets():
            (group,) = reply["groups"]
            return FetchOffsetsResponse(group["groupId"], ErrorCode(group["errorCode"]), _fetched(group["topics"]))
        case DeleteOffsets():
            return DeleteOffsetsResponse(error, _topic_errors(reply.get("topics", ())))
        case DeleteGroups():
            results = ((one["groupId"], ErrorCode(one["errorCode"])) for one in reply["results"])
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
    """The UUID in a member ID: classic members have `<client ID>-<UUID>`, members of consumer groups a plain UUID."""
    return UUID(member_id[-36:]) if len(member_id) > 36 else uuid_from_text(member_id)
