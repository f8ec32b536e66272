"""One scenario with one broker: sends requests, waits for effects, and records every response."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.apis import Api, latest, versions
from tests.kafka.side_by_side.transcript import Names, render
from tests.node_process import NodeProcess
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response, framed

SETTLE_TIMEOUT_S = 60.0
RESPONSE_TIMEOUT_S = 30.0

Fields = Mapping[str, Any]
Scenario = Callable[["Conversation"], None]

scenarios: dict[str, Scenario] = {}
scenarios_with_authorizer: dict[str, Scenario] = {}
"""The client is a super user."""


def scenario(function: Scenario) -> Scenario:
    """Registers a scenario under its name, which is also the name of its golden transcript."""
    return _register(function, scenarios)


def scenario_with_authorizer(function: Scenario) -> Scenario:
    return _register(function, scenarios_with_authorizer)


def _register(function: Scenario, where: dict[str, Scenario]) -> Scenario:
    name = function.__name__
    assert name not in scenarios | scenarios_with_authorizer, f"two scenarios are called {name}"
    where[name] = function
    return function


class Conversation:
    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.names = Names()
        self.names.text(str(node.port), "<port>")
        self.names.text(str(node.controller_port), "<controller port>")
        for number, path in enumerate(node.log_dirs, 1):
            self.names.text(str(path), f"<log dir {number}>")
        self.lines: list[str] = []
        self._connection: RawConnection | None = None
        self._producer_numbers = itertools.count(1)
        self._created: list[str] = []

    # Requests

    def request(self, label: str, api: Api, fields: Fields | None = None, *, version: int | None = None) -> Any:
        """Sends one request and records the response; None if the broker closed the connection."""
        version = latest(api) if version is None else version
        response, lines = self._exchange(api, version, fields or {})
        self._write(f"{api.name.lower()} v{version}: {label}", lines)
        return response

    def request_each_version(
        self, label: str, api: Api, fields: Fields | Callable[[int], Fields], start: int = 0
    ) -> None:
        """The same request in every version from `start`; versions with equal responses share one entry."""
        responses = []
        for version in versions(api):
            if version >= start:
                _, lines = self._exchange(api, version, fields(version) if callable(fields) else fields)
                responses.append((version, lines))
        for lines, group in itertools.groupby(responses, key=lambda one: one[1]):
            same = [version for version, _ in group]
            span = f"v{same[0]}" if len(same) == 1 else f"v{same[0]}-v{same[-1]}"
            self._write(f"{api.name.lower()} {span}: {label}", lines)

    def request_quietly(self, api: Api, fields: Fields | None = None, *, version: int | None = None) -> Any:
        """Sends a request whose response is not recorded."""
        return self._connected().request(api, latest(api) if version is None else version, fields)

    def send_bytes(
        self, label: str, frame: bytes, *, length_in_front: bool = True, decoded_as: tuple[Api, int] | None = None
    ) -> None:
        """Sends raw bytes on a new connection; the response is decoded as `decoded_as`, or recorded raw."""
        self._write(label, self._raw_exchange(framed(frame) if length_in_front else frame, decoded_as))

    def write(self, title: str, response: Any) -> None:
        """Records a response of which only a part is compared."""
        self._write(title, render(response, self.names))

    # State

    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> UUID:
        """Creates a topic and waits until the broker leads its partitions."""
        response = self.request_quietly(
            Api.CREATE_TOPICS,
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": partitions,
                        "replication_factor": 1,
                        "assignments": [],
                        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
                    }
                ],
                "timeout": 10_000,
                "validate_only": False,
            },
        )
        assert response.topics[0].error_code is ErrorCode.none, response.topics[0]
        self.remember_topic(name)
        self.until(lambda: self._leads(name, partitions))
        topic_id: UUID = response.topics[0].topic_id
        self.names.uuid(topic_id, f"<id of {name}>")
        return topic_id

    def remember_topic(self, name: str) -> None:
        """The topic goes when the conversation ends: who creates it waits until the broker knows it."""
        self._created.append(name)

    def new_producer(self) -> tuple[int, int]:
        """A producer id and its epoch. Kafka has none to give in its first second."""
        responses: list[Any] = []

        def given() -> bool:
            fields = {"transactional_id": None, "transaction_timeout": 60_000}
            responses.append(self.request_quietly(Api.INIT_PRODUCER_ID, fields, version=4))
            return responses[-1].error_code is ErrorCode.none

        self.until(given)
        response = responses[-1]
        self.names.producer(response.producer_id, f"<producer {next(self._producer_numbers)}>")
        return response.producer_id, response.producer_epoch

    def produce(self, topic: str, data: bytes, *, partition: int = 0) -> int:
        """Appends without writing it down; the offset it got."""
        response = self.request_quietly(Api.PRODUCE, produce_fields(topic, data, partition=partition), version=9)
        partition_response = response.responses[0].partition_responses[0]
        assert partition_response.error_code is ErrorCode.none, partition_response
        return int(partition_response.base_offset)

    def topic_metadata(self, names: Sequence[str]) -> Any:
        return self.request_quietly(
            Api.METADATA, {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}, version=9
        )

    def until(self, settled: Callable[[], bool]) -> None:
        """Kafka responses before every part of it has seen a change: waits for the part a scenario looks at."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not settled():
            assert time.monotonic() < deadline, f"{self.node.name} did not settle"
            time.sleep(0.02)

    def until_partitions(self, name: str, count: int) -> None:
        self.until(lambda: len(self.topic_metadata([name]).topics[0].partitions) == count)

    def until_gone(self, name: str) -> None:
        self.until(lambda: self.topic_metadata([name]).topics[0].error_code is ErrorCode.unknown_topic_or_partition)

    def end(self) -> None:
        """Deletes what the scenario created, so that the next one sees a clean broker."""
        existing = {topic.name for topic in self.request_quietly(Api.METADATA, {"topics": None}, version=9).topics}
        doomed = [name for name in self._created if name in existing]
        if doomed:
            self.request_quietly(Api.DELETE_TOPICS, {"topic_names": doomed, "timeout": 10_000}, version=4)
            for name in doomed:
                self.until_gone(name)
        if self._connection is not None:
            self._connection.close()

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    # Inside

    def _leads(self, name: str, partitions: int) -> bool:
        """Metadata may name the leader before it serves: ListOffsets proves that it does."""
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
                        for number in range(partitions)
                    ],
                }
            ],
        }
        response = self.request_quietly(Api.LIST_OFFSETS, fields, version=6)
        return all(partition.error_code is ErrorCode.none for partition in response.topics[0].partitions)

    def _exchange(self, api: Api, version: int, fields: Fields) -> tuple[Any, list[str]]:
        try:
            response = self._connected().request(api, version, fields)
        except ConnectionClosed:
            self._hang_up()
            return None, ["(connection closed)"]
        except TimeoutError:
            self._hang_up()
            return None, ["(no answer)"]
        return response, render(response, self.names)

    def _raw_exchange(self, data: bytes, decoded_as: tuple[Api, int] | None) -> list[str]:
        self._hang_up()
        connection = self._connected()
        try:
            with suppress(ConnectionClosed):
                connection.send_bytes(data)
            response = connection.receive()
            return render(decode_response(*decoded_as, response), self.names) if decoded_as else [response.hex()]
        except ConnectionClosed:
            return ["(connection closed)"]
        except TimeoutError:
            return ["(no answer)"]
        finally:
            self._hang_up()

    def _connected(self) -> RawConnection:
        if self._connection is None:
            self._connection = RawConnection(self.node.port, timeout_s=RESPONSE_TIMEOUT_S)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, title: str, lines: Sequence[str]) -> None:
        self.lines.append(f"> {title}")
        self.lines += [f"  {self.names.in_text(line)}" for line in lines]


def produce_fields(
    topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, topic_id: UUID | None = None
) -> dict[str, Any]:
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [
            {"name": topic, "topic_id": topic_id, "partition_data": [{"index": partition, "records": data}]}
        ],
    }


def fetch_fields(
    topic: str, offset: int = 0, *, partition: int = 0, topic_id: UUID | None = None, **others: Any
) -> dict[str, Any]:
    """A full fetch of one partition; `others` replace fields of the request, `in_*` those of the partition."""
    in_partition = {key.removeprefix("in_"): others.pop(key) for key in list(others) if key.startswith("in_")}
    return {
        "replica_id": -1,
        "max_wait": 100,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {
                "topic": topic,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "last_fetched_epoch": -1,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1 << 20,
                        **in_partition,
                    }
                ],
            }
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
        **others,
    }
