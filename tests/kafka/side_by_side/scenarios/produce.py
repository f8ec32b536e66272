"""Produce: acknowledgements, codecs, and every reason to reject a batch."""

from uuid import UUID

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, fetch_fields, produce_fields, scenario
from tests.record_batches import (
    APPEND_TIME,
    CODEC_NAMES,
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    TestRecord,
    batch,
    encode_record,
)

PLAIN = batch(TestRecord(b"one"), TestRecord(b"two", key=b"k", headers=[(b"h", b"v"), (b"n", None)]))
UNKNOWN_ID = UUID(int=0xFEED)
HOUR_MS = 3600 * 1000


@scenario
def produce_versions(talk: Conversation) -> None:
    topic_id = talk.create_topic("versions")
    talk.request_each_version("two records", Api.PRODUCE, produce_fields("versions", PLAIN, topic_id=topic_id))
    for acks in (1, -1):
        fields = produce_fields("versions", PLAIN, acks=acks, topic_id=topic_id)
        talk.request(f"acks={acks}", Api.PRODUCE, fields)
    talk.request("all of it", Api.FETCH, fetch_fields("versions", topic_id=topic_id))


@scenario
def produce_unknown_places(talk: Conversation) -> None:
    topic_id = talk.create_topic("places")
    talk.request_each_version(
        "a partition that is not there", Api.PRODUCE, produce_fields("places", PLAIN, partition=5, topic_id=topic_id)
    )
    talk.request_each_version(
        "a topic that is not there", Api.PRODUCE, produce_fields("nowhere", PLAIN, topic_id=UNKNOWN_ID)
    )
    for version in (9, 12, 13):
        talk.request(
            "a negative partition",
            Api.PRODUCE,
            produce_fields("places", PLAIN, partition=-1, topic_id=topic_id),
            version=version,
        )
    talk.request("an id of zero", Api.PRODUCE, produce_fields("places", PLAIN, topic_id=None))
    talk.request("an illegal topic name", Api.PRODUCE, produce_fields("no/slash", PLAIN), version=9)
    talk.request("an empty topic name", Api.PRODUCE, produce_fields("", PLAIN), version=9)
    both = produce_fields("places", PLAIN)
    both["topic_data"].append(produce_fields("nowhere", PLAIN)["topic_data"][0])
    talk.request("one topic that is there and one that is not", Api.PRODUCE, both, version=9)
    talk.request("no topic at all", Api.PRODUCE, {**both, "topic_data": []}, version=9)


@scenario
def produce_acks(talk: Conversation) -> None:
    topic_id = talk.create_topic("acks")
    for acks in (2, -2, 100):
        talk.request_each_version(
            f"acks={acks}", Api.PRODUCE, produce_fields("acks", PLAIN, acks=acks, topic_id=topic_id), start=9
        )
    talk.request("acks=2 and an unknown topic", Api.PRODUCE, produce_fields("nowhere", PLAIN, acks=2), version=9)


@scenario
def produce_too_few_in_sync(talk: Conversation) -> None:
    talk.create_topic("in-sync", configs={"min.insync.replicas": "2"})
    talk.request("acks=all below min.insync.replicas", Api.PRODUCE, produce_fields("in-sync", PLAIN), version=9)
    talk.request("acks=1 below min.insync.replicas", Api.PRODUCE, produce_fields("in-sync", PLAIN, acks=1), version=9)


@scenario
def produce_broken_batches(talk: Conversation) -> None:
    talk.create_topic("broken")
    record = TestRecord(b"value")
    two = (record, record)
    refused = {
        "no records": b"",
        "a wrong CRC": batch(record, crc=1),
        "a flipped bit": PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]),
        "half a batch": PLAIN[:-10],
        "half a header": PLAIN[:30],
        "magic 0": batch(record, magic=0),
        "magic 1": batch(record, magic=1),
        "magic 3": batch(record, magic=3),
        "two batches": PLAIN + PLAIN,
        "a batch and a half": PLAIN + PLAIN[:40],
        "bytes after the batch": PLAIN + b"more",
        "a batch without records": batch(),
        "a batch that says it has no records": batch(record, record_count=0),
        "fewer records than it says": batch(record, record_count=2, last_offset_delta=1),
        "a last offset delta below the count": batch(*two, last_offset_delta=0),
        "a last offset delta above the count": batch(*two, last_offset_delta=5),
        "a negative last offset delta": batch(record, last_offset_delta=-1),
        "a negative count": batch(record, record_count=-1),
        "a control batch": batch(record, attributes=CONTROL),
        "a transactional batch without a producer": batch(record, attributes=TRANSACTIONAL),
        "codec 5": batch(record, attributes=5),
        "codec 7": batch(record, attributes=7),
        "gzip that is not gzip": batch(record, attributes=GZIP, body=b"nonsense"),
        "snappy that is not snappy": batch(record, attributes=SNAPPY, body=b"nonsense"),
        "lz4 that is not lz4": batch(record, attributes=LZ4, body=b"nonsense"),
        "zstd that is not zstd": batch(record, attributes=ZSTD, body=b"nonsense"),
        "a base offset that is not 0": batch(record, base_offset=77),
        "a leader epoch of its own": batch(record, leader_epoch=77),
        "a delete horizon": batch(record, attributes=0x40),
        "an unknown attribute": batch(record, attributes=0x100),
    }
    for label, data in refused.items():
        talk.request(label, Api.PRODUCE, produce_fields("broken", data), version=9)
    talk.request("what was kept", Api.FETCH, fetch_fields("broken"), version=12)


@scenario
def produce_codecs(talk: Conversation) -> None:
    records = [TestRecord(b"x" * 100, key=b"%d" % number) for number in range(50)]
    for topic_codec in ("producer", "uncompressed"):
        name = f"codecs-{topic_codec}"
        talk.create_topic(name, configs={"compression.type": topic_codec})
        for codec, codec_name in CODEC_NAMES.items():
            fields = produce_fields(name, batch(*records, codec=codec))
            talk.request(f"{codec_name} into a topic of {topic_codec}", Api.PRODUCE, fields, version=9)
        if topic_codec == "uncompressed":
            talk.request("all of it", Api.FETCH, fetch_fields(name), version=12)
    talk.create_topic("codecs-old")
    for version in (3, 5, 6, 7):
        fields = produce_fields("codecs-old", batch(*records, codec=ZSTD))
        talk.request("zstd", Api.PRODUCE, fields, version=version)


@scenario
def produce_too_large(talk: Conversation) -> None:
    talk.create_topic("large", configs={"max.message.bytes": "1000"})
    exact = 1000 - len(batch(TestRecord(b"")))
    talk.request(
        "well above the limit", Api.PRODUCE, produce_fields("large", batch(TestRecord(b"x" * 5000))), version=9
    )
    fits = batch(TestRecord(b"x" * (exact - 2)))
    talk.request(f"{len(fits)} bytes", Api.PRODUCE, produce_fields("large", fits), version=9)
    above = batch(TestRecord(b"x" * (exact + 1)))
    talk.request(f"{len(above)} bytes", Api.PRODUCE, produce_fields("large", above), version=9)
    small_when_compressed = batch(TestRecord(b"x" * 5000), codec=GZIP)
    fields = produce_fields("large", small_when_compressed)
    talk.request("small once compressed", Api.PRODUCE, fields, version=9)


@scenario
def produce_timestamps(talk: Conversation) -> None:
    talk.create_topic("create-time")
    talk.create_topic("append-time", configs={"message.timestamp.type": "LogAppendTime"})
    talk.create_topic("bounded", configs={"message.timestamp.before.max.ms": str(HOUR_MS)})
    talk.create_topic("future", configs={"message.timestamp.after.max.ms": "9223372036854775807"})
    old, far = batch(TestRecord(), timestamp=1000), batch(TestRecord(), timestamp=99_999_999_999_999)
    for topic in ("create-time", "append-time", "bounded", "future"):
        for label, data in (
            ("long ago", old),
            ("far in the future", far),
            ("no timestamp", batch(TestRecord(), timestamp=-1)),
            ("a negative timestamp", batch(TestRecord(), timestamp=-5)),
            ("append time claimed by the client", batch(TestRecord(), timestamp=1000, attributes=APPEND_TIME)),
            ("a maximum below the records'", batch(TestRecord(timestamp_delta=50), timestamp=1000, max_timestamp=1000)),
            ("a maximum above the records'", batch(TestRecord(), timestamp=1000, max_timestamp=2000)),
        ):
            talk.request(f"{label} into {topic}", Api.PRODUCE, produce_fields(topic, data), version=9)
        talk.request(f"all of {topic}", Api.FETCH, fetch_fields(topic), version=12)


@scenario
def produce_compacted(talk: Conversation) -> None:
    talk.create_topic("compacted", configs={"cleanup.policy": "compact"})
    keyed, keyless = TestRecord(b"v", key=b"k"), TestRecord(b"v")
    for codec in (NONE, LZ4):
        name = CODEC_NAMES[codec]
        talk.request(f"keys, {name}", Api.PRODUCE, produce_fields("compacted", batch(keyed, codec=codec)), version=9)
        fields = produce_fields("compacted", batch(keyed, keyless, codec=codec))
        talk.request(f"a record without key, {name}", Api.PRODUCE, fields, version=9)
    for version in (3, 7, 8, 10):
        fields = produce_fields("compacted", batch(keyless, keyed, keyless))
        talk.request("two records without key", Api.PRODUCE, fields, version=version)
    fields = produce_fields("compacted", batch(TestRecord(None, key=b"k")))
    talk.request("a tombstone", Api.PRODUCE, fields, version=9)


@scenario
def produce_broken_records(talk: Conversation) -> None:
    """Damage inside the body, with a CRC that fits."""
    talk.create_topic("records")
    good = encode_record(TestRecord(b"value"), 0)
    bodies = {
        "a record longer than the batch": b"\x7f" + good[1:],
        "a record of negative length": b"\x01" + good[1:],
        "bytes after the records": good + b"more",
        "offset deltas that do not count up": encode_record(TestRecord(), 0) * 2,
        "a value longer than its record": good[:5] + b"\x7e" + good[6:],
    }
    for label, body in bodies.items():
        count = 2 if "count up" in label else 1
        data = batch(body=body, record_count=count, last_offset_delta=count - 1)
        talk.request(label, Api.PRODUCE, produce_fields("records", data), version=9)
