import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumer
from odradek.client.produce import Producer
from odradek.records.record import Record
from tests.console.browser import Visitor
from tests.console.conftest import end_of
from tests.schema_registry import FakeRegistry

HOSTILE = b'<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>\x1b[2J\x00\xff'


def send(client: Cluster, topic: str, *records: Record) -> None:
    producer = Producer(client)
    for record in records:
        producer.add(topic, record, 0)
    producer.flush()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_markup_in_messages_is_shown_and_not_executed(
    visitor: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(f"hostile-{visitor.page.viewport_size['width']}")
    send(client, topic, Record(HOSTILE, HOSTILE, now_ms(), ((HOSTILE.decode("latin-1"), HOSTILE),)))
    page = visitor.open(f"/topics/{topic}/messages")
    visitor.expect(visitor.cell("0:0", "value"), "<script>")
    assert "\\x1b[2J\\x00\\xff" in visitor.cell("0:0", "key").inner_text()
    visitor.check_accessible()
    visitor.row("0:0").get_by_role("button").click()
    visitor.expect(page.get_by_role("dialog"), "<script>")
    visitor.check_accessible()
    visitor.press_in_dialog("Close")
    assert page.title() != "owned"
    assert page.locator("main img, main script").count() == 0


def test_messages_are_searched_by_offset_time_and_text(
    at_desk: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("sought", retention_ms="-1")
    old_ms = 1_700_000_000_000
    send(
        client, topic, *(Record(b"k%d" % number, b"value %d" % number, old_ms + number * 1000) for number in range(120))
    )
    page = at_desk.open(f"/topics/{topic}/messages")
    at_desk.row("0:119").wait_for()
    at_desk.fill("Containing text", "VALUE 77")
    at_desk.press("Read")
    at_desk.expect(page.locator("main"), "1 message shown, 120 messages scanned")
    at_desk.row("0:77").wait_for()
    at_desk.fill("Containing text", "")
    at_desk.choose("Start at", "offset")
    at_desk.fill("Offset or time", "nothing")
    at_desk.press("Read")
    assert "Offset must be a whole number, not 'nothing'." in at_desk.outcome()
    at_desk.fill("Offset or time", "10")
    at_desk.press("Read")
    at_desk.row("0:59").wait_for()
    assert at_desk.row("0:9").count() == 0
    at_desk.press("Next")
    at_desk.row("0:109").wait_for()
    assert at_desk.row("0:59").count() == 0
    at_desk.choose("Start at", "time")
    at_desk.fill("Offset or time", str(old_ms + 100_000))
    at_desk.press("Read")
    at_desk.expect(page.locator("main"), "20 messages shown; end of the log.")
    at_desk.picture("messages")
    page.wait_for_url("**start=time**")
    page.reload()
    at_desk.row("0:100").wait_for()
    assert at_desk.row("0:99").count() == 0


def test_json_and_hex_views_truncate_large_values_and_download_them_whole(
    at_desk: Visitor, client: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic("formats", max_message_bytes="20000000")
    send(client, topic, Record(None, b'{"a": [1, 2]}', now_ms()))
    send(client, topic, Record(None, b"x" * 10_000_000, now_ms()))
    page = at_desk.open(f"/topics/{topic}/messages?view=json")
    at_desk.row("0:0").get_by_role("button").click()
    at_desk.expect(page.get_by_role("region", name="Value"), '{\n  "a": [\n    1,\n    2\n  ]\n}')
    at_desk.press_in_dialog("Close")
    at_desk.choose("Display as", "hex")
    at_desk.expect(at_desk.cell("0:0", "value"), "7b2261223a205b312c20325d7d")
    at_desk.row("0:1").get_by_role("button").click()
    at_desk.expect(page.get_by_role("region", name="Value"), "of 10,000,000 bytes")
    with page.expect_download() as downloading:
        at_desk.press_in_dialog("Download value")
    downloading.value.save_as(tmp_path / "value")
    assert (tmp_path / "value").stat().st_size == 10_000_000
    at_desk.press_in_dialog("Close")


def test_produced_message_appears_in_live_tail(
    visitor: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(f"followed-{visitor.page.viewport_size['width']}", b"before")
    page = visitor.open(f"/topics/{topic}/messages")
    visitor.row("0:0").wait_for()
    page.get_by_label("Live tail").check()
    visitor.expect(page.locator("main"), "Waiting for messages")
    assert visitor.row("0:0").count() == 0
    visitor.press("Produce message")
    visitor.fill("Key", "who")
    visitor.fill("Value", "written by hand")
    visitor.fill("Headers", "no equals sign")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("alert"), "does not have the form name=value")
    visitor.fill("Headers", "trace=1")
    visitor.check_accessible()
    visitor.press_in_dialog("Preview")
    visitor.press_in_dialog("Produce message")
    assert f"Stored in {topic}-0 at offset 1." in visitor.outcome()
    visitor.expect(visitor.cell("0:1", "value"), "written by hand")
    assert end_of(client, topic) == 2
    (stored,) = Consumer(client, {TopicPartition(topic, 0): 1}).poll(wait_ms=1000)
    assert (stored.record.key, stored.record.value) == (b"who", b"written by hand")
    assert stored.record.headers == (("trace", b"1"),)


def test_messages_are_filtered_exported_and_resent(
    at_desk: Visitor, client: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic("amounts", *(b'{"amount": %d}' % number for number in range(20)))
    page = at_desk.open(f"/topics/{topic}/messages")
    at_desk.row("0:19").wait_for()
    at_desk.fill("Where", "__import__('os').system('true')")
    at_desk.press("Read")
    assert "Invalid query. At " in at_desk.outcome()
    at_desk.fill("Where", 'value.amount >= 7 and value.amount < 9 and key ~ "KEY"')
    at_desk.press("Read")
    at_desk.expect(page.locator("main"), "2 messages shown, 20 messages scanned")
    at_desk.row("0:8").wait_for()
    page.wait_for_url("**where=value.amount**")
    at_desk.check_accessible()
    for form, lines in (("jsonl", 2), ("csv", 3)):
        at_desk.choose("Export as", form)
        with page.expect_download() as downloading:
            at_desk.press("Export")
        assert downloading.value.suggested_filename == f"amounts.{form}"
        downloading.value.save_as(tmp_path / form)
        assert len((tmp_path / form).read_text().splitlines()) == lines
    assert json.loads((tmp_path / "jsonl").read_text().splitlines()[0])["value"] == '{"amount": 7}'
    at_desk.row("0:8").get_by_role("button").click()
    at_desk.press_in_dialog("Resend")
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("dialog").locator("td[data-column=content]"), '{"amount": 8}')
    at_desk.check_accessible()
    at_desk.press_in_dialog("Resend message")
    at_desk.expect(page.locator(".o-message"), f"Stored in {topic}-0 at offset 20.")
    (stored,) = Consumer(client, {TopicPartition(topic, 0): 20}).poll(wait_ms=1000)
    assert (stored.record.key, stored.record.value) == (b"key-8", b'{"amount": 8}')


def protobuf_schema() -> str:
    """`message Note { string text = 1; }`, as registries serialize it."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="note.proto", syntax="proto3")
    file.message_type.add(name="Note").field.add(name="text", number=1, type=9, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


def test_avro_and_protobuf_are_decoded_by_schema_and_other_values_shown_as_text(
    at_desk: Visitor, registry: FakeRegistry, new_topic: Callable[..., str]
) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "note", "type": "string"}]}
    registry.responses["/schemas/ids/7"] = {"schema": json.dumps(schema)}
    note = b"<script>document.title='owned'</script>\x1b"
    framed = b"\x00\x00\x00\x00\x07" + bytes([2 * len(note)]) + note
    serialized = {"schema": protobuf_schema(), "schemaType": "PROTOBUF"}
    registry.responses["/schemas/ids/9"] = {"schema": 'syntax = "proto3"; …', "schemaType": "PROTOBUF"}
    registry.responses["/schemas/ids/9?format=serialized"] = serialized
    # The index of the first message type, then field 1 of the message.
    message = b"\x00\x00\x00\x00\x09" + b"\x00" + b"\x0a" + bytes([len(note)]) + note
    topic = new_topic("by-schema", framed, b"plain", b"\x00\x00\x00\x00\x08x", message)
    page = at_desk.open(f"/topics/{topic}/messages?view=schema")
    at_desk.expect(at_desk.cell("0:0", "value"), '{"note": "<script>')
    at_desk.expect(at_desk.cell("0:3", "value"), '{"text": "<script>')
    at_desk.expect(at_desk.cell("0:1", "value"), "plain")
    at_desk.row("0:2").get_by_role("button").click()
    shown = "(not decoded: schema 8: not found in the schema registry)"
    at_desk.expect(page.get_by_role("region", name="Value"), shown)
    at_desk.press_in_dialog("Close")
    assert page.title() != "owned"
