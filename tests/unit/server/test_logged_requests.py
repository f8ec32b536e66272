"""Requests that are written down: whose, in what form, and what is kept out of the log."""

import asyncio
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.instruments.request_log import LOGGER, RequestLog
from odradek.server.context import RequestContext
from odradek.server.logged_requests import ARRAY_SHOWN_MAX, add_logging
from odradek.wire.produce_codec import PartitionRecords, ProduceRequest, TopicRecords
from odradek.wire.schemas import schema

METADATA, PRODUCE, INCREMENTAL_ALTER_CONFIGS = 3, 0, 44
TOPIC_ID = UUID(int=7)
BROKER = SimpleNamespace(image=SimpleNamespace(topics_by_name={"orders": SimpleNamespace(id=TOPIC_ID)}))


def context(api_key: int, version: int, client_id: str | None = "me") -> RequestContext:
    return RequestContext(api_key, version, client_id, "PLAINTEXT", "10.0.0.1", schema(api_key, version))


def selecting(*, clients: set[str] | None = None, topics: set[str] | None = None) -> RequestLog:
    log = RequestLog()
    log.select(not clients and not topics, frozenset(clients or ()), frozenset(topics or ()))
    return log


def written(
    caplog: pytest.LogCaptureFixture, log: RequestLog, request: Any, context_: RequestContext, response: Any = b"12345"
) -> list[dict[str, Any]]:
    """What is in the log after one request."""

    async def handle() -> Any:
        result = add_logging(lambda *_: response, log)(request, context_, BROKER)
        return await result.wait() if isinstance(result, DeferredResponse) else result

    caplog.clear()
    with caplog.at_level(logging.INFO, LOGGER):
        asyncio.run(handle())
    return [json.loads(one.getMessage().removeprefix("Completed request:")) for one in caplog.records]


def produce(topic: str | None = "orders", topic_id: UUID | None = None) -> ProduceRequest:
    records = memoryview(b"secret of a customer")
    return ProduceRequest(None, -1, 30_000, [TopicRecords(topic, topic_id, [PartitionRecords(0, records)])])


def test_request_log_entry(caplog: pytest.LogCaptureFixture) -> None:
    (entry,) = written(caplog, selecting(), produce(), context(PRODUCE, 9))
    assert entry["requestHeader"] == {
        "requestApiKey": 0,
        "requestApiVersion": 9,
        "clientId": "me",
        "requestApiKeyName": "PRODUCE",
    }
    assert entry["request"]["topics"] == [
        {"name": "orders", "topicId": None, "partitions": [{"partition": 0, "records": {"sizeInBytes": 20}}]}
    ]
    assert entry["response"] == {"sizeInBytes": 5}
    assert (entry["connection"], entry["listener"]) == ("10.0.0.1", "PLAINTEXT")
    assert entry["totalTimeMs"] >= entry["localTimeMs"] >= 0
    assert "secret" not in caplog.text


class Later(DeferredResponse):
    async def wait(self) -> Any:
        asyncio.get_running_loop().call_later(0.02, lambda: self.complete(b"late"))
        return await super().wait()


def test_deferred_response_is_logged_when_it_completes(caplog: pytest.LogCaptureFixture) -> None:
    (entry,) = written(caplog, selecting(), produce(), context(PRODUCE, 9), Later())
    assert entry["response"] == {"sizeInBytes": 4}
    assert entry["remoteTimeMs"] >= 15


def test_cancelled_deferred_response_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    deferred = DeferredResponse()

    async def handle() -> None:
        add_logging(lambda *_: deferred, selecting())(produce(), context(PRODUCE, 9), BROKER).cancel()

    with caplog.at_level(logging.INFO, LOGGER):
        asyncio.run(handle())
        deferred.complete(b"late")
    assert deferred.is_done
    assert not caplog.records


@pytest.mark.parametrize(
    ("log", "is_written"),
    [
        (lambda: selecting(clients={"me"}), True),
        (lambda: selecting(clients={"you"}), False),
        (lambda: selecting(topics={"orders"}), True),
        (lambda: selecting(topics={"order"}), False),
        (lambda: selecting(clients={"you"}, topics={"orders"}), True),
    ],
)
@pytest.mark.parametrize("request_", [produce(), produce(None, TOPIC_ID)], ids=["by name", "by id"])
def test_selected_requests_are_logged(
    caplog: pytest.LogCaptureFixture, log: Callable[[], RequestLog], is_written: bool, request_: ProduceRequest
) -> None:
    assert len(written(caplog, log(), request_, context(PRODUCE, 9))) == is_written


def metadata_request(context_: RequestContext, topics: tuple[Any, ...]) -> Any:
    return context_.new(
        "MetadataRequest", topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def test_topics_are_found_in_requests_of_other_apis(caplog: pytest.LogCaptureFixture) -> None:
    context_ = context(METADATA, 12)
    topics = tuple(context_.new("MetadataRequestTopic", name=name, topic_id=None) for name in ("other", "orders"))
    (entry,) = written(caplog, selecting(topics={"orders"}), metadata_request(context_, topics), context_)
    assert [topic["name"] for topic in entry["request"]["topics"]] == ["other", "orders"]


def test_configs_that_may_be_secret_are_redacted(caplog: pytest.LogCaptureFixture) -> None:
    context_ = context(INCREMENTAL_ALTER_CONFIGS, 1)
    values = {"ssl.keystore.password": "hunter2", "my.own": "hunter3", "retention.ms": "5", "log.cleaner.threads": "2"}
    configs = tuple(
        context_.new("AlterableConfig", name=name, config_operation=0, value=value) for name, value in values.items()
    )
    resource = context_.new("AlterConfigsResource", resource_type=4, resource_name="1", configs=configs)
    request = context_.new("IncrementalAlterConfigsRequest", resources=(resource,), validate_only=False)
    (entry,) = written(caplog, selecting(), request, context_)
    (shown,) = entry["request"]["resources"]
    assert {one["name"]: one["value"] for one in shown["configs"]} == values | {
        "ssl.keystore.password": "(redacted)",
        "my.own": "(redacted)",
    }
    assert "hunter" not in caplog.text


def test_long_arrays_are_truncated_in_the_request_log(caplog: pytest.LogCaptureFixture) -> None:
    context_ = context(METADATA, 12)
    topics = tuple(context_.new("MetadataRequestTopic", name=f"t{number}", topic_id=None) for number in range(5000))
    (entry,) = written(caplog, selecting(topics={"t4321"}), metadata_request(context_, topics), context_)
    shown = entry["request"]["topics"]
    assert len(shown) == ARRAY_SHOWN_MAX + 1
    assert shown[-1] == "and 4900 more"
