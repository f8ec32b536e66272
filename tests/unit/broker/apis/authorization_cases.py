"""The permissions that each API of the data path checks, with a request, and its response with and without them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from tests.unit.fake_access import Grant

PRODUCER_ID = 1000
"""Of transactional id x."""
NOT_REQUESTED = -(2**31)
NONE = ErrorCode.none
GROUP_DENIED = ErrorCode.group_authorization_failed
TOPIC_DENIED = ErrorCode.topic_authorization_failed
CLUSTER_DENIED = ErrorCode.cluster_authorization_failed
TXN_DENIED = ErrorCode.transactional_id_authorization_failed
UNKNOWN_TOPIC = ErrorCode.unknown_topic_or_partition


def topic(name: str, operation: Operation) -> Grant:
    return operation, ResourceType.TOPIC, name


def group(name: str, operation: Operation) -> Grant:
    return operation, ResourceType.GROUP, name


def cluster(operation: Operation) -> Grant:
    return operation, ResourceType.CLUSTER, CLUSTER_NAME


def transaction(name: str, operation: Operation) -> Grant:
    return operation, ResourceType.TRANSACTIONAL_ID, name


READ_G, DESCRIBE_G, DELETE_G = (group("g", one) for one in (Operation.READ, Operation.DESCRIBE, Operation.DELETE))
READ_T, WRITE_T, DESCRIBE_T, DELETE_T = (
    topic("t", one) for one in (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DELETE)
)
WRITE_X, DESCRIBE_X = transaction("x", Operation.WRITE), transaction("x", Operation.DESCRIBE)


@dataclass(frozen=True)
class Denial:
    """What the response contains if only `missing` is not granted."""

    missing: Grant
    found: Any
    is_logged: bool = True


@dataclass(frozen=True)
class Case:
    api: str
    name: str
    key: int
    version: int
    fields: dict[str, Any]
    find: Callable[[Any], Any]
    granted: Any
    """The result with exactly the missing permissions of all denials."""
    denials: tuple[Denial, ...]

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {self.name}"

    @property
    def needs(self) -> tuple[Grant, ...]:
        return tuple(one.missing for one in self.denials)


def top(response: Any) -> Any:
    return response.error_code


def by_topic(response: Any) -> Any:
    return [
        (
            getattr(one, "name", "") or getattr(one, "topic", ""),
            [getattr(part, "error_code", None) for part in one.partitions],
        )
        for one in response.topics
    ]


def of_group(response: Any) -> Any:
    (found,) = response.groups
    return found.error_code


def _results_of_txn(response: Any) -> Any:
    return [
        (one.name, [part.partition_error_code for part in one.results_by_partition])
        for one in response.results_by_topic_v3_and_below
    ]


def _markers(response: Any) -> Any:
    return [
        (marker.producer_id, one.name, [part.error_code for part in one.partitions])
        for marker in response.markers
        for one in marker.topics
    ]


def _commit_topics(name: str = "t") -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}]


_JOIN = {"group_id": "g", "session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "consumer"}
_JOIN["protocols"] = [{"name": "range", "metadata": b""}]
_SYNC = {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "protocol_name": "range"}
_COMMIT = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": _commit_topics()}
_TXN_COMMIT = {"transactional_id": "x", "group_id": "g", "producer_id": PRODUCER_ID, "generation_id": -1}
_TXN_COMMIT["topics"] = _commit_topics()
_FETCH_OFFSETS = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
_ADD_TO_TXN = {
    "v3_and_below_transactional_id": "x",
    "v3_and_below_producer_id": PRODUCER_ID,
    "v3_and_below_producer_epoch": 0,
    "v3_and_below_topics": [{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [0]}],
}
_BROKER_TXN = {"transactional_id": "x", "producer_id": PRODUCER_ID, "producer_epoch": 0, "verify_only": False}
_BROKER_TXN["topics"] = [{"name": "t", "partitions": [0]}]
_MARKER = {"producer_id": 7, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 1}
_MARKER["topics"] = [{"name": "t", "partition_indexes": [0]}]
_HEARTBEAT = {"group_id": "g2", "member_id": "m2", "member_epoch": 0, "rebalance_timeout": 1000}
_HEARTBEAT |= {"subscribed_topic_names": ["t"], "topic_partitions": []}
_LIST_OFFSETS = {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
_END_OF_EPOCH = {"replica_id": -1, "topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]}

GROUP_CASES = (
    *(
        Case("JoinGroup", "group", 11, version, _JOIN, top, joined, (Denial(READ_G, GROUP_DENIED),))
        for version, joined in ((4, ErrorCode.member_id_required), (9, ErrorCode.member_id_required))
    ),
    *(
        Case(
            "Heartbeat",
            "group",
            12,
            version,
            {"group_id": "g", "member_id": "m"},
            top,
            ErrorCode.unknown_member_id,
            (Denial(READ_G, GROUP_DENIED),),
        )
        for version in (0, 4)
    ),
    Case(
        "LeaveGroup",
        "group",
        13,
        2,
        {"group_id": "g", "member_id": "m"},
        top,
        ErrorCode.unknown_member_id,
        (Denial(READ_G, GROUP_DENIED),),
    ),
    Case(
        "LeaveGroup",
        "group",
        13,
        5,
        {"group_id": "g", "members": [{"member_id": "m"}]},
        lambda response: (response.error_code, [one.error_code for one in response.members]),
        (NONE, [ErrorCode.unknown_member_id]),
        (Denial(READ_G, (GROUP_DENIED, [])),),
    ),
    *(
        Case(
            "SyncGroup",
            "group",
            14,
            version,
            _SYNC,
            top,
            ErrorCode.unknown_member_id,
            (Denial(READ_G, GROUP_DENIED),),
        )
        for version in (4, 5)
    ),
    *(
        Case(
            "OffsetCommit",
            "group and topic",
            8,
            version,
            _COMMIT,
            by_topic,
            [("t", [NONE])],
            (Denial(READ_G, [("t", [GROUP_DENIED])]), Denial(READ_T, [("t", [TOPIC_DENIED])])),
        )
        for version in (2, 9)
    ),
    Case(
        "OffsetFetch",
        "group and topic",
        9,
        1,
        _FETCH_OFFSETS,
        by_topic,
        [("t", [NONE])],
        (Denial(DESCRIBE_G, [("t", [GROUP_DENIED])]), Denial(DESCRIBE_T, [("t", [TOPIC_DENIED])])),
    ),
    Case(
        "OffsetFetch",
        "group and topic",
        9,
        7,
        _FETCH_OFFSETS,
        lambda response: (response.error_code, by_topic(response)),
        (NONE, [("t", [NONE])]),
        (Denial(DESCRIBE_G, (GROUP_DENIED, [])), Denial(DESCRIBE_T, (NONE, [("t", [TOPIC_DENIED])]))),
    ),
    Case(
        "OffsetFetch",
        "each group",
        9,
        9,
        {"groups": [_FETCH_OFFSETS, _FETCH_OFFSETS | {"group_id": "other"}]},
        lambda response: [(one.group_id, one.error_code, by_topic(one)) for one in response.groups],
        [("g", NONE, [("t", [NONE])]), ("other", NONE, [("t", [NONE])])],
        (
            Denial(DESCRIBE_G, [("g", GROUP_DENIED, []), ("other", NONE, [("t", [NONE])])]),
            Denial(group("other", Operation.DESCRIBE), [("g", NONE, [("t", [NONE])]), ("other", GROUP_DENIED, [])]),
            Denial(DESCRIBE_T, [("g", NONE, [("t", [TOPIC_DENIED])]), ("other", NONE, [("t", [TOPIC_DENIED])])]),
        ),
    ),
    *(
        Case(
            "OffsetFetch",
            "all topics",
            9,
            version,
            {"group_id": "g", "topics": None, "groups": [{"group_id": "g", "topics": None}]},
            lambda response: sorted(by_topic(response.groups[0] if hasattr(response, "groups") else response)),
            [("t", [NONE]), ("u", [NONE])],
            (
                Denial(DESCRIBE_G, []),
                Denial(DESCRIBE_T, [("u", [NONE])]),
                Denial(topic("u", Operation.DESCRIBE), [("t", [NONE])]),
            ),
        )
        for version in (2, 9)
    ),
    *(
        Case(
            "FindCoordinator",
            "group",
            10,
            version,
            {"key": "g", "key_type": 0},
            lambda response: (response.error_code, response.error_message, response.node_id),
            (NONE, "NONE", 1),
            (Denial(DESCRIBE_G, (GROUP_DENIED, "Group authorization failed.", -1)),),
        )
        for version in (1, 3)
    ),
    Case(
        "FindCoordinator",
        "transactional id",
        10,
        3,
        {"key": "x", "key_type": 1},
        lambda response: (response.error_code, response.error_message, response.node_id),
        (NONE, "NONE", 1),
        (Denial(DESCRIBE_X, (TXN_DENIED, "Transactional Id authorization failed.", -1)),),
    ),
    Case(
        "FindCoordinator",
        "each key",
        10,
        6,
        {"key_type": 0, "coordinator_keys": ["g", "h"]},
        lambda response: [(one.key, one.error_code, one.error_message, one.host) for one in response.coordinators],
        [("g", NONE, "", "plaintext-1"), ("h", NONE, "", "plaintext-1")],
        (
            Denial(DESCRIBE_G, [("g", GROUP_DENIED, "", ""), ("h", NONE, "", "plaintext-1")]),
            Denial(group("h", Operation.DESCRIBE), [("g", NONE, "", "plaintext-1"), ("h", GROUP_DENIED, "", "")]),
        ),
    ),
    Case(
        "FindCoordinator",
        "share groups, which are not supported",
        10,
        6,
        {"key_type": 2, "coordinator_keys": ["g:a:0", "g:a:1"]},
        lambda response: [(one.error_code, one.error_message) for one in response.coordinators],
        [(ErrorCode.invalid_request, "")] * 2,
        (Denial(cluster(Operation.CLUSTER_ACTION), [(CLUSTER_DENIED, "Cluster authorization failed.")] * 2),),
    ),
    *(
        Case(
            "DescribeGroups",
            "each group, denied ones first",
            15,
            version,
            {"groups": ["g", "h"]},
            lambda response: [(one.group_id, one.error_code, one.group_state) for one in response.groups],
            [("g", NONE, "Empty"), ("h", unknown, "Dead")],
            (
                Denial(DESCRIBE_G, [("g", GROUP_DENIED, ""), ("h", unknown, "Dead")]),
                Denial(group("h", Operation.DESCRIBE), [("h", GROUP_DENIED, ""), ("g", NONE, "Empty")]),
            ),
        )
        for version, unknown in ((0, NONE), (6, ErrorCode.group_id_not_found))
    ),
    Case(
        "ListGroups",
        "each group",
        16,
        4,
        {},
        lambda response: (response.error_code, sorted(one.group_id for one in response.groups)),
        (NONE, ["g", "members"]),
        (
            Denial(DESCRIBE_G, (NONE, ["members"]), is_logged=False),
            Denial(group("members", Operation.DESCRIBE), (NONE, ["g"]), is_logged=False),
        ),
    ),
    Case(
        "ListGroups",
        "cluster",
        16,
        4,
        {},
        lambda response: (response.error_code, sorted(one.group_id for one in response.groups)),
        (NONE, ["g", "members"]),
        (Denial(cluster(Operation.DESCRIBE), (NONE, []), is_logged=False),),
    ),
    Case(
        "DeleteGroups",
        "each group, denied ones last",
        42,
        2,
        {"groups_names": ["g", "h", "g"]},
        lambda response: [(one.group_id, one.error_code) for one in response.results],
        [("g", NONE), ("h", ErrorCode.group_id_not_found)],
        (
            Denial(DELETE_G, [("h", ErrorCode.group_id_not_found), ("g", GROUP_DENIED)]),
            Denial(group("h", Operation.DELETE), [("g", NONE), ("h", GROUP_DENIED)]),
        ),
    ),
    Case(
        "OffsetDelete",
        "group and topic",
        47,
        0,
        {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
        lambda response: (response.error_code, by_topic(response)),
        (NONE, [("t", [NONE])]),
        (Denial(DELETE_G, (GROUP_DENIED, [])), Denial(READ_T, (NONE, [("t", [TOPIC_DENIED])]))),
    ),
    *(
        Case(
            "ConsumerGroupHeartbeat",
            "group and subscribed names",
            68,
            version,
            _HEARTBEAT,
            lambda response: (response.error_code, response.error_message),
            (NONE, None),
            (
                Denial(group("g2", Operation.READ), (GROUP_DENIED, None)),
                Denial(DESCRIBE_T, (TOPIC_DENIED, None)),
            ),
        )
        for version in (0, 1)
    ),
    Case(
        "ConsumerGroupDescribe",
        "group and assigned topics",
        69,
        1,
        {"group_ids": ["members"], "include_authorized_operations": True},
        lambda response: [
            (one.error_code, one.error_message, len(one.members), one.authorized_operations) for one in response.groups
        ],
        [(NONE, None, 1, 1 << Operation.DESCRIBE)],
        (
            Denial(group("members", Operation.DESCRIBE), [(GROUP_DENIED, None, 0, NOT_REQUESTED)]),
            Denial(
                DESCRIBE_T,
                [
                    (
                        TOPIC_DENIED,
                        "The group has described topic(s) that the client is not authorized to describe.",
                        0,
                        NOT_REQUESTED,
                    )
                ],
            ),
        ),
    ),
)

TRANSACTION_CASES = (
    *(
        Case(
            "InitProducerId",
            "transactional id",
            22,
            version,
            {"transactional_id": "new", "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
            top,
            NONE,
            (Denial(transaction("new", Operation.WRITE), TXN_DENIED),),
        )
        for version in (0, 4)
    ),
    Case(
        "InitProducerId",
        "two-phase commit",
        22,
        6,
        {
            "transactional_id": "new",
            "transaction_timeout": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
            "enable2_pc": True,
        },
        top,
        # The broker is not configured for it, which is checked last.
        TXN_DENIED,
        (
            Denial(transaction("new", Operation.WRITE), TXN_DENIED),
            Denial(transaction("new", Operation.TWO_PHASE_COMMIT), TXN_DENIED),
        ),
    ),
    Case(
        "InitProducerId",
        "idempotent producer",
        22,
        4,
        {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
        top,
        NONE,
        (Denial(cluster(Operation.IDEMPOTENT_WRITE), CLUSTER_DENIED, is_logged=False),),
    ),
    *(
        Case(
            "AddPartitionsToTxn",
            "client",
            24,
            version,
            _ADD_TO_TXN,
            _results_of_txn,
            [("t", [NONE]), ("u", [NONE])],
            (
                Denial(WRITE_X, [("t", [TXN_DENIED]), ("u", [TXN_DENIED])]),
                Denial(WRITE_T, [("t", [TOPIC_DENIED]), ("u", [ErrorCode.operation_not_attempted])]),
                Denial(
                    topic("u", Operation.WRITE), [("t", [ErrorCode.operation_not_attempted]), ("u", [TOPIC_DENIED])]
                ),
            ),
        )
        for version in (0, 3)
    ),
    *(
        Case(
            "AddPartitionsToTxn",
            "broker",
            24,
            version,
            {"transactions": [_BROKER_TXN]},
            lambda response: (response.error_code, len(response.results_by_transaction)),
            (NONE, 1),
            (Denial(cluster(Operation.CLUSTER_ACTION), (CLUSTER_DENIED, 0)),),
        )
        for version in (4, 5)
    ),
    *(
        Case(
            "AddOffsetsToTxn",
            "transaction and group",
            25,
            version,
            {"transactional_id": "x", "producer_id": PRODUCER_ID, "group_id": "g"},
            top,
            NONE,
            (Denial(WRITE_X, TXN_DENIED), Denial(READ_G, GROUP_DENIED)),
        )
        for version in (0, 4)
    ),
    *(
        Case(
            "EndTxn",
            "transaction",
            26,
            version,
            {"transactional_id": "x", "producer_id": PRODUCER_ID, "committed": True},
            top,
            ErrorCode.invalid_txn_state,
            (Denial(WRITE_X, TXN_DENIED),),
        )
        for version in (0, 4)
    ),
    Case(
        "WriteTxnMarkers",
        "administrator",
        27,
        1,
        {"markers": [_MARKER]},
        _markers,
        [(7, "t", [NONE])],
        (Denial(cluster(Operation.ALTER), [(7, "t", [CLUSTER_DENIED])], is_logged=False),),
    ),
    Case(
        "WriteTxnMarkers",
        "broker",
        27,
        2,
        {"markers": [_MARKER]},
        _markers,
        [(7, "t", [NONE])],
        (Denial(cluster(Operation.CLUSTER_ACTION), [(7, "t", [CLUSTER_DENIED])]),),
    ),
    *(
        Case(
            "TxnOffsetCommit",
            "transaction, group and topic",
            28,
            version,
            _TXN_COMMIT,
            by_topic,
            # The broker does not lead the group's partition of __consumer_offsets.
            [("t", [ErrorCode.not_coordinator])],
            (
                Denial(WRITE_X, [("t", [TXN_DENIED])]),
                Denial(READ_G, [("t", [GROUP_DENIED])]),
                Denial(READ_T, [("t", [TOPIC_DENIED])]),
            ),
        )
        for version in (0, 5)
    ),
    Case(
        "DescribeTransactions",
        "transaction and topic",
        65,
        0,
        {"transactional_ids": ["open"]},
        lambda response: [
            (one.error_code, [topic.topic for topic in one.topics]) for one in response.transaction_states
        ],
        [(NONE, ["t"])],
        (
            Denial(transaction("open", Operation.DESCRIBE), [(TXN_DENIED, [])]),
            Denial(DESCRIBE_T, [(NONE, [])]),
        ),
    ),
    Case(
        "ListTransactions",
        "each transaction",
        66,
        1,
        {"duration_filter": -1},
        lambda response: (response.error_code, sorted(one.transactional_id for one in response.transaction_states)),
        (NONE, ["open", "x"]),
        (
            Denial(transaction("open", Operation.DESCRIBE), (NONE, ["x"])),
            Denial(DESCRIBE_X, (NONE, ["open"])),
        ),
    ),
)

TOPIC_CASES = (
    *(
        Case(
            "ListOffsets",
            "topic, by a consumer" if replica_id < 0 else "topic, by a replica",
            2,
            version,
            _LIST_OFFSETS | {"replica_id": replica_id},
            lambda response: [
                (topic.name, one.error_code, one.timestamp, one.offset)
                for topic in response.topics
                for one in topic.partitions
            ],
            [("t", NONE, -1, 0)],
            (Denial(DESCRIBE_T, [("t", TOPIC_DENIED, -1, -1)]),),
        )
        for version, replica_id in ((1, -1), (10, -1), (10, 3))
    ),
    Case(
        "OffsetForLeaderEpoch",
        "topic",
        23,
        4,
        _END_OF_EPOCH,
        lambda response: [
            (topic.topic, one.error_code, one.leader_epoch, one.end_offset)
            for topic in response.topics
            for one in topic.partitions
        ],
        [("t", NONE, 0, 0)],
        (Denial(DESCRIBE_T, [("t", TOPIC_DENIED, -1, -1)]),),
    ),
    Case(
        "OffsetForLeaderEpoch",
        "cluster",
        23,
        4,
        _END_OF_EPOCH,
        lambda response: [one.error_code for topic in response.topics for one in topic.partitions],
        [NONE],
        (Denial(cluster(Operation.CLUSTER_ACTION), [TOPIC_DENIED], is_logged=False),),
    ),
    Case(
        "DescribeProducers",
        "topic",
        61,
        0,
        {"topics": [{"name": "t", "partition_indexes": [0, 1]}]},
        lambda response: [(one.error_code, one.error_message) for topic in response.topics for one in topic.partitions],
        [(NONE, None), (NONE, None)],
        (Denial(READ_T, [(TOPIC_DENIED, "Topic authorization failed.")] * 2),),
    ),
    Case(
        "DeleteRecords",
        "topic",
        21,
        2,
        {"timeout": 1000, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]},
        lambda response: [
            (topic.name, one.error_code, one.low_watermark) for topic in response.topics for one in topic.partitions
        ],
        [("t", NONE, 0)],
        (Denial(DELETE_T, [("t", TOPIC_DENIED, -1)]),),
    ),
)
