"""Nodes under test whose clients are throttled soon, and their quotas."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.apache_kafka import ApacheKafka
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection

EXACT, DEFAULT = 0, 1
APPLIED_SECONDS_MAX = 30.0


def running_quota_node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeProcess]:
    """A node of the product that the fixture's parameter names. A client that was idle may send for one second without
    a delay, instead of ten.
    """
    properties = {"quota.window.num": "2"}
    directory = tmp_path_factory.mktemp(request.param)
    node: NodeProcess
    if request.param == "kafka":
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory, properties=properties)
    else:
        node = OdradekProcess(directory, properties=properties)
    try:
        yield node.start()
    finally:
        node.remove()


def set_quota(connection: RawConnection, key: str, value: float | None, **entity: str | None) -> None:
    """Also waits until the broker has applied it."""
    names = {kind.replace("_", "-"): name for kind, name in entity.items()}
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
    changes = [{"key": key, "value": value or 0.0, "remove": value is None}]
    fields = {"entries": [{"entity": parts, "ops": changes}], "validate_only": False}
    (entry,) = connection.request(Api.ALTER_CLIENT_QUOTAS, 1, fields).entries
    assert entry.error_code is ErrorCode.none, entry.error_message
    deadline = time.monotonic() + APPLIED_SECONDS_MAX
    while _limit(connection, key, names) != value:
        assert time.monotonic() < deadline, f"{key} of {names} did not become {value}"


def _limit(connection: RawConnection, key: str, names: dict[str, str | None]) -> float | None:
    components: list[dict[str, Any]] = [
        {"entity_type": kind, "match_type": DEFAULT if name is None else EXACT, "match": name}
        for kind, name in names.items()
    ]
    fields = {"components": components, "strict": True}
    entries = connection.request(Api.DESCRIBE_CLIENT_QUOTAS, 1, fields).entries or ()
    return next((limit.value for entry in entries for limit in entry.values if limit.key == key), None)
