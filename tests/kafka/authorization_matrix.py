"""Sends each request of the authorization tables with and without each permission to a node that has an authorizer."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

from kio.schema.errors import ErrorCode

from odradek.core.security.resources import Operation
from tests.kafka.side_by_side.transcript import Names, render
from tests.raw_wire import ConnectionClosed, RawConnection
from tests.record_batches import TRANSACTIONAL, TestRecord, batch
from tests.secured_node import Permissions, SecuredNode
from tests.unit.broker.apis.authorization_cases import (
    GROUP_CASES,
    GROUP_DENIED,
    NONE,
    PRODUCER_ID,
    READ_G,
    READ_T,
    TOPIC_CASES,
    TOPIC_DENIED,
    TRANSACTION_CASES,
    TXN_DENIED,
    WRITE_T,
    Case,
    Denial,
    cluster,
    topic,
    transaction,
)
from tests.unit.fake_access import Grant

API_VERSIONS = 18
SETTLE_TIMEOUT_S = 30.0

CLOSED = "(connection closed)"
# Needs unstable API versions in Apache Kafka.
_UNSTABLE = "two-phase commit"


@dataclass
class State:
    """What requests need to know of the node: ids that it has chosen."""

    topic_ids: dict[str, UUID] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class DynamicCase:
    """A case whose request depends on the node."""

    case: Case
    build: Callable[[State], dict[str, Any]]


class Matrix:
    def __init__(self, secured: SecuredNode) -> None:
        self._secured = secured
        self._admin = RawConnection(secured.node.port)
        self._client = secured.connect()
        self.state = State()
        self.names = Names()
        self.names.text(f"{secured.port}", "<port>")
        self._permissions = Permissions(secured.node)
        self._create_fixtures()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()
        self._client.close()
        self._permissions.close()

    @property
    def client(self) -> RawConnection:
        """Of User:client. It is another one after a case in which the broker closed it."""
        return self._client

    def grant(self, grants: Iterable[Grant]) -> None:
        self._permissions.grant(grants)

    # ---- cases

    def play(self, case: Case | DynamicCase) -> Iterator[tuple[str, list[str], Any, Any]]:
        """Of each run: its title, the response as text, what the case found in it, and what it expects (or None)."""
        one = case.case if isinstance(case, DynamicCase) else case
        build = case.build if isinstance(case, DynamicCase) else lambda state: self._fill_in(one.fields)
        runs: list[tuple[str, tuple[Grant, ...], Denial | None]] = [
            (
                f"without {denial.missing[0].name} {denial.missing[1].name} {denial.missing[2]}",
                tuple(need for need in one.needs if need != denial.missing),
                denial,
            )
            for denial in one.denials
        ]
        runs.append(("allowed", one.needs, None))
        for title, grants, denial in runs:
            self._restore(one)
            self.grant(grants)
            lines, found = self._send(one, lambda: build(self.state))
            yield title, lines, found, denial

    def _send(self, case: Case, build: Callable[[], dict[str, Any]]) -> tuple[list[str], Any]:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            fields = build()
            try:
                if fields.get("acks") == 0:
                    self._client.send(case.key, case.version, fields)
                    # The connection is open if it responds to this.
                    self._client.request(API_VERSIONS, 0)
                    return ["(no response)"], None
                response = self._client.request(case.key, case.version, fields)
            except ConnectionClosed:
                self._client.close()
                self._client = self._secured.connect()
                return [CLOSED], CLOSED
            member_id = getattr(response, "member_id", None)
            if case.api == "JoinGroup" and member_id:
                self.names.text(member_id, "<member id>")
            lines = [self.names.in_text(line) for line in render(response, self.names)]
            if not any("concurrent_transactions" in line for line in lines) or time.monotonic() > deadline:
                return lines, case.find(response)
            time.sleep(0.05)

    def _fill_in(self, value: Any) -> Any:
        """Replaces the ids of the tables by those of the node."""
        if isinstance(value, list):
            return [self._fill_in(one) for one in value]
        if not isinstance(value, dict):
            return value
        filled = {key: self._fill_in(one) for key, one in value.items()}
        for prefix in ("", "v3_and_below_"):
            if filled.get(f"{prefix}producer_id") == PRODUCER_ID:
                filled[f"{prefix}producer_id"], filled[f"{prefix}producer_epoch"] = self.state.producers["x"]
        return filled

    # ---- fixtures: topics t and u; group g with offsets, group members with a member; transactions x, p and open

    def _create_fixtures(self) -> None:
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in (("t", 2), ("u", 1))
        ]
        response = self._admin.request(19, 7, {"topics": topics, "timeout": 10_000})
        for one in response.topics:
            assert one.error_code is ErrorCode.none, one
            self.state.topic_ids[one.name] = one.topic_id
            self.names.uuid(one.topic_id, f"<id of {one.name}>")
        self._until(self._leads_all)
        for key_type, key in ((0, "g"), (1, "x")):
            self._until_none(10, 3, {"key_type": key_type, "key": key})
        self._commit_offsets()
        member = {"group_id": "members", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 600_000}
        self._until_none(68, 1, member | {"subscribed_topic_names": ["t"], "topic_partitions": []})
        for name in ("x", "open", "p"):
            self._init_producer(name)
        producer_id, epoch = self.state.producers["open"]
        added = self._admin.request(
            24,
            3,
            {
                "v3_and_below_transactional_id": "open",
                "v3_and_below_producer_id": producer_id,
                "v3_and_below_producer_epoch": epoch,
                "v3_and_below_topics": [{"name": "t", "partitions": [1]}],
            },
        )
        (result,) = added.results_by_topic_v3_and_below
        assert result.results_by_partition[0].partition_error_code is ErrorCode.none, added
        data = bytes(batch(TestRecord(b"one")))
        for name in ("t", "u"):
            self._admin.request(0, 9, produce_fields([(name, None, 0, data)]))

    def _leads_all(self) -> bool:
        partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
        topics = [{"name": name, "partitions": partitions} for name in ("t", "u")]
        response = self._admin.request(2, 6, {"replica_id": -1, "topics": topics})
        return all(part.error_code is ErrorCode.none for one in response.topics for part in one.partitions)

    def _restore(self, case: Case) -> None:
        if case in GROUP_CASES:
            self._commit_offsets()
        if str(PRODUCER_ID) in str(case.fields) or case.key == 28:
            self._init_producer("x")

    def _commit_offsets(self) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1}]
        partitions[0]["committed_metadata"] = ""  # type: ignore[assignment]
        topics = [{"name": name, "partitions": partitions} for name in ("t", "u")]
        fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

        def is_committed() -> bool:
            response = self._admin.request(8, 9, fields)
            return all(part.error_code is ErrorCode.none for one in response.topics for part in one.partitions)

        self._until(is_committed)

    def _init_producer(self, name: str) -> None:
        fields = {
            "transactional_id": name,
            "transaction_timeout": 600_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        response = self._until_none(22, 4, fields)
        self.state.producers[name] = response.producer_id, response.producer_epoch
        self.names.producer(response.producer_id, f"<producer of {name}>")

    def _until_none(self, key: int, version: int, fields: Mapping[str, Any]) -> Any:
        responses: list[Any] = []

        def succeeded() -> bool:
            responses.append(self._admin.request(key, version, fields))
            return responses[-1].error_code is ErrorCode.none

        self._until(succeeded)
        return responses[-1]

    def _until(self, settled: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not settled():
            assert time.monotonic() < deadline, f"{self._secured.node.name} did not settle"
            time.sleep(0.01)


# ---- Produce and Fetch


def produce_fields(
    parts: Sequence[tuple[str, UUID | None, int, bytes]], *, acks: int = 1, transactional_id: str | None = None
) -> dict[str, Any]:
    topics = [
        {"name": name, "topic_id": topic_id, "partition_data": [{"index": index, "records": data}]}
        for name, topic_id, index, data in parts
    ]
    return {"transactional_id": transactional_id, "acks": acks, "timeout": 10_000, "topic_data": topics}


def fetch_fields(state: State, *topics: str, offset: int = 0, **others: Any) -> dict[str, Any]:
    wanted = {"partition": 0, "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    wanted |= {"fetch_offset": offset, "partition_max_bytes": 1 << 20}
    defaults = {"replica_id": -1, "max_wait": 100, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return (
        defaults
        | others
        | {"topics": [{"topic": one, "topic_id": state.topic_ids.get(one), "partitions": [wanted]} for one in topics]}
    )


def _record() -> bytes:
    return bytes(batch(TestRecord(b"written")))


def _transactional(state: State) -> bytes:
    producer_id, epoch = state.producers["p"]
    return bytes(
        batch(
            TestRecord(b"in a transaction"),
            attributes=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
        )
    )


def _codes_of_produce(response: Any) -> Any:
    return sorted(part.error_code.name for one in response.responses for part in one.partition_responses)


def _codes_of_fetch(response: Any) -> Any:
    return [part.error_code for one in response.responses for part in one.partitions]


def _produce(name: str, version: int, denials: tuple[Denial, ...], build: Callable[[State], Any]) -> DynamicCase:
    return DynamicCase(Case("Produce", name, 0, version, {}, _codes_of_produce, None, denials), build)


def _fetch(name: str, version: int, denials: tuple[Denial, ...], build: Callable[[State], Any]) -> DynamicCase:
    return DynamicCase(Case("Fetch", name, 1, version, {}, _codes_of_fetch, None, denials), build)


WRITE_P = transaction("p", Operation.WRITE)
READ_U, WRITE_U = topic("u", Operation.READ), topic("u", Operation.WRITE)
_FOLLOWER = {"replica_id": 1, "replica_state": {"replica_id": 1, "replica_epoch": -1}, "max_wait": 0}

DATA_CASES = (
    *(
        _produce(
            "each topic",
            version,
            (
                Denial(WRITE_T, [NONE.name, TOPIC_DENIED.name]),
                Denial(WRITE_U, [NONE.name, TOPIC_DENIED.name]),
            ),
            lambda state: produce_fields([(one, state.topic_ids[one], 0, _record()) for one in ("t", "u")]),
        )
        for version in (3, 12, 13)
    ),
    _produce(
        "missing topic",
        12,
        (Denial(topic("missing", Operation.WRITE), [TOPIC_DENIED.name]),),
        lambda state: produce_fields([("missing", None, 0, _record())]),
    ),
    _produce(
        "transaction, first check",
        12,
        (Denial(WRITE_P, [TXN_DENIED.name]), Denial(WRITE_T, [TOPIC_DENIED.name])),
        lambda state: produce_fields([("t", None, 0, _transactional(state))], transactional_id="p"),
    ),
    _produce(
        "transactional batch without id, every partition",
        12,
        (Denial(WRITE_U, [TXN_DENIED.name] * 2),),
        lambda state: produce_fields([("u", None, 0, _record()), ("t", None, 0, _transactional(state))]),
    ),
    _produce(
        "acks=0",
        12,
        (Denial(WRITE_T, CLOSED),),
        lambda state: produce_fields([("t", None, 0, _record())], acks=0),
    ),
    *(
        _fetch(
            "consumer",
            version,
            (Denial(READ_T, [NONE, TOPIC_DENIED]), Denial(READ_U, [NONE, TOPIC_DENIED])),
            lambda state: fetch_fields(state, "t", "u"),
        )
        for version in (4, 12, 13, 18)
    ),
    _fetch(
        "missing topic",
        12,
        (Denial(topic("missing", Operation.READ), [TOPIC_DENIED]),),
        lambda state: fetch_fields(state, "missing"),
    ),
    *(
        _fetch(
            "follower",
            version,
            (Denial(cluster(Operation.CLUSTER_ACTION), [TOPIC_DENIED, TOPIC_DENIED]),),
            lambda state: fetch_fields(state, "t", "u", **_FOLLOWER),
        )
        for version in (12, 18)
    ),
    DynamicCase(
        Case(
            "OffsetCommit",
            "by topic id",
            8,
            10,
            {},
            lambda response: sorted(part.error_code.name for one in response.topics for part in one.partitions),
            None,
            (
                Denial(READ_G, [GROUP_DENIED.name] * 2),
                Denial(READ_T, [TOPIC_DENIED.name, ErrorCode.unknown_topic_id.name]),
            ),
        ),
        lambda state: {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "topics": [
                {"topic_id": one, "partitions": [{"committed_offset": 1, "committed_metadata": ""}]}
                for one in (UUID(int=77), state.topic_ids["t"])
            ],
        },
    ),
    DynamicCase(
        Case(
            "OffsetFetch",
            "by topic id",
            9,
            10,
            {},
            lambda response: [part.error_code for one in response.groups[0].topics for part in one.partitions],
            None,
            (
                Denial(topic("t", Operation.DESCRIBE), [NONE, ErrorCode.unknown_topic_id, TOPIC_DENIED]),
                Denial(topic("u", Operation.DESCRIBE), [NONE, TOPIC_DENIED, ErrorCode.unknown_topic_id]),
                Denial((Operation.DESCRIBE, READ_G[1], "g"), []),
            ),
        ),
        lambda state: {
            "groups": [
                {
                    "group_id": "g",
                    "topics": [
                        {"topic_id": one, "partition_indexes": [0]}
                        for one in (state.topic_ids["u"], UUID(int=77), state.topic_ids["t"])
                    ],
                }
            ]
        },
    ),
)

CASES: tuple[Case | DynamicCase, ...] = (
    *(one for one in (*GROUP_CASES, *TRANSACTION_CASES, *TOPIC_CASES) if one.name != _UNSTABLE),
    *DATA_CASES,
)


def title_of(case: Case | DynamicCase) -> str:
    return str(case.case if isinstance(case, DynamicCase) else case)
