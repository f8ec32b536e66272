import csv
import io
import json
from typing import Any, cast

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumed
from odradek.console.actions import messages as actions
from odradek.console.actions.action import Refused
from odradek.console.actions.messages import ResendMessage
from odradek.console.queries import export
from odradek.console.queries.export import FileForm, export_messages
from odradek.console.queries.messages import Start, Wanted
from odradek.core.security.resources import Operation
from odradek.records.record import Record

FIRST = TopicPartition("orders", 0)
NO_CLUSTER = cast(Cluster, object())
RECORDS = [
    Record(b"k", b'=HYPERLINK("x")', 5, (("h", b"1"),), 0),
    Record(None, b"\xff\x00", 6, (), 1),
    Record(b"-1", None, 7, (), 2),
    Record(b"late", b"after the end", 8, (), 3),
]


class Reading:
    """Fake of Admin and Consumer for a topic with three records; a fourth arrives during the read."""

    def __init__(self, cluster: Cluster, positions: Any = None) -> None:
        self.positions = dict(positions or {})

    def offsets(self, timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {one: 3 if at == -1 else 0 for one, at in timestamps.items()}

    def poll(self, *, wait_ms: int) -> list[Consumed]:
        self.positions = dict.fromkeys(self.positions, 4)
        return [Consumed(FIRST, record, False) for record in RECORDS]

    def drop(self, partition: TopicPartition) -> None:
        del self.positions[partition]


@pytest.fixture(autouse=True)
def reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "Admin", Reading)
    monkeypatch.setattr(export, "Consumer", Reading)
    monkeypatch.setattr(export, "partitions_of", lambda cluster, wanted: [FIRST])


def wanted(**more: Any) -> Wanted:
    return Wanted(topic="orders", start=Start.BEGINNING, **more)


def test_json_lines_export_preserves_every_byte() -> None:
    found = export_messages(NO_CLUSTER, wanted(), FileForm.JSON_LINES)
    first, second, third = (json.loads(line) for line in found.data.splitlines())
    assert (found.count, found.has_reached_limit) == (3, False)
    assert first == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 5,
        "key": "k",
        "value": '=HYPERLINK("x")',
        "headers": [{"name": "h", "value": "1"}],
    }
    assert (second["key"], second["value_base64"]) == (None, "/wA=")
    assert third["value"] is None


def test_csv_export_escapes_spreadsheet_formulas() -> None:
    found = export_messages(NO_CLUSTER, wanted(), FileForm.CSV)
    head, first, second, third = csv.reader(io.StringIO(found.data.decode(), newline=""))
    assert head[4:6] == ["key", "value"]
    assert first[4:] == ["k", '\'=HYPERLINK("x")', '[{"name": "h", "value": "1"}]']
    assert second[4:6] == ["", "base64:/wA="]
    assert third[4:6] == ["-1", ""]


def test_export_applies_filter_and_message_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = export_messages(NO_CLUSTER, wanted(expression="key == '-1'"), FileForm.JSON_LINES)
    assert [json.loads(line)["offset"] for line in found.data.splitlines()] == [2]
    monkeypatch.setattr(export, "MESSAGES_MAX", 2)
    found = export_messages(NO_CLUSTER, wanted(), FileForm.JSON_LINES)
    assert (found.count, found.has_reached_limit) == (2, True)


def test_message_is_resent_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        def retry(self, what: str, request: Any) -> Any:
            return request()

        def topics(self, names: list[str], *, purpose: Operation) -> Any:
            assert purpose is Operation.WRITE
            from tests.unit.console.snapshots import partition, topic

            return {names[0]: topic(names[0], partition(0, (1,)))}

    monkeypatch.setattr(actions, "whole_record", lambda cluster, partition, offset: RECORDS[1])
    again = ResendMessage(source=FIRST, offset=1, topic="other")
    with pytest.raises(Refused, match="Open the preview first"):
        again.carry_out(NO_CLUSTER)
    preview = again.preview(cast(Cluster, Known()))
    assert preview.sentence == "Produces one message to topic other, any partition, because it has no key."
    assert [row.text("content") for row in preview.rows] == ["null", "\\xff\\x00"]
    assert again.details() == {"from": "orders-0, offset 1", "partition": None, "key_bytes": None, "value_bytes": 2}
    with pytest.raises(Refused, match="Enter the target topic"):
        ResendMessage(source=FIRST, offset=1, topic="").preview(NO_CLUSTER)
