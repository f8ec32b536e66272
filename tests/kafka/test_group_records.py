"""Records of `__consumer_offsets`: Apache Kafka's classes read Odradek's bytes and write the same bytes."""

import base64
import dataclasses
import json
import random
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.ids import uuid_to_text
from odradek.core.groups.records import GroupRecord, UnknownKind, UnreadableRecord, decode, encode_key, encode_value
from odradek.core.groups.records.codec import KEY_TYPES, VALUE_TYPES
from tests.kafka.java_program import JavaProgram

RANDOM_RECORDS_EACH = 8
VERSIONS = [
    (key_type, version)
    for key_type, value_type in VALUE_TYPES.items()
    for version in range(value_type.HIGHEST_VERSION + 1)
]


@pytest.fixture(scope="module")
def kafkas_records(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "GroupRecords") as program:
        yield program


def _decode_with_kafka(program: JavaProgram, key: bytes, value: bytes | None) -> list[str]:
    (line,) = program.request(key.hex(), "-" if value is None else value.hex())
    return line.split("\t")


@pytest.mark.parametrize(("key_type", "version"), VERSIONS)
def test_group_records_round_trip_through_kafka(kafkas_records: JavaProgram, key_type: Any, version: int) -> None:
    rng = random.Random(f"{key_type.__name__} {version}")
    for number in range(RANDOM_RECORDS_EACH):
        value = _random(VALUE_TYPES[key_type], version, rng, defaults=number == 0)
        record = GroupRecord(_random(key_type, 0, rng), value, version)
        key_bytes, value_bytes = encode_key(record), encode_value(record)
        assert value_bytes is not None
        outcome, kafkas_key, kafkas_value, key_json, value_json = _decode_with_kafka(
            kafkas_records, key_bytes, value_bytes
        )
        assert (outcome, kafkas_key, kafkas_value) == ("OK", key_bytes.hex(), value_bytes.hex())
        assert json.loads(key_json) == _json(record.key, 0)
        fields = json.loads(value_json)
        assert fields == {name: one for name, one in _json(value, version).items() if name in fields}
        assert decode(key_bytes, value_bytes) == record


@pytest.mark.parametrize("key_type", KEY_TYPES.values())
def test_group_tombstones_round_trip_through_kafka(kafkas_records: JavaProgram, key_type: Any) -> None:
    record = GroupRecord(_random(key_type, 0, random.Random(1)), None)
    key_bytes = encode_key(record)
    assert encode_value(record) is None
    assert _decode_with_kafka(kafkas_records, key_bytes, None)[:3] == ["OK", key_bytes.hex(), "-"]
    assert decode(key_bytes, None) == record


@pytest.mark.parametrize(
    ("key", "value", "kafkas_refusal", "ours"),
    [
        (b"\x03\xe7\x00\x01g", b"\0\0", "UnknownRecordTypeException", UnknownKind),
        (b"\xff\xff\x00\x01g", None, "UnknownRecordTypeException", UnknownKind),
        (b"\x00\x02\x00\x09g", None, "RuntimeException", UnreadableRecord),
        (b"\x00", None, "RuntimeException", UnreadableRecord),
        (b"\x00\x02\x00\x01g", b"\x00\x05\x00", "UnknownRecordVersionException", UnreadableRecord),
        (b"\x00\x02\x00\x01g", b"\x00", "RuntimeException", UnreadableRecord),
        (b"\x00\x02\x00\x01g", b"\x00\x03\x00\x08consumer", "RuntimeException", UnreadableRecord),
        (
            b"\x00\x01\x00\x01g\x00\x01t\0\0\0\0",
            b"\xff\xff" + bytes(40),
            "UnknownRecordVersionException",
            UnreadableRecord,
        ),
    ],
)
def test_invalid_group_records_are_rejected_like_kafka_does(
    kafkas_records: JavaProgram, key: bytes, value: bytes | None, kafkas_refusal: str, ours: type[Exception]
) -> None:
    assert _decode_with_kafka(kafkas_records, key, value) == ["FAILED", kafkas_refusal]
    with pytest.raises(UnreadableRecord) as refusal:
        decode(key, value)
    assert type(refusal.value) is ours


# ---- random values, and Kafka's JSON of them


def _random(shape: Any, version: int, rng: random.Random, *, defaults: bool = False) -> Any:
    values = {}
    for known in dataclasses.fields(shape):
        in_version = _is_in(known, version)
        has_default = known.default is not dataclasses.MISSING
        if has_default and (defaults or not in_version):
            continue
        assert in_version
        values[known.name] = _random_value(known.type, known.metadata.get("kafka_type"), version, rng)
    return shape(**values)


def _is_in(known: "dataclasses.Field[Any]", version: int) -> bool:
    return bool(known.metadata.get("since", 0) <= version <= known.metadata.get("until", version))


def _random_value(hint: Any, kafka_type: str | None, version: int, rng: random.Random) -> Any:
    if isinstance(hint, types.UnionType):
        if kafka_type != "uuid" and rng.random() < 0.3:
            return None
        (hint,) = (option for option in typing.get_args(hint) if option is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        return tuple(_random_value(element, kafka_type, version, rng) for _ in range(rng.randrange(4)))
    if dataclasses.is_dataclass(hint):
        return _random(hint, version, rng)
    match kafka_type:
        case "string":
            return rng.choice(["", "orders", "größer", "x" * 300])
        case "bytes":
            return rng.randbytes(rng.choice([0, 1, 20, 200]))
        case "uuid":
            return UUID(int=rng.getrandbits(128))
    assert kafka_type is not None
    bits = int(kafka_type.removeprefix("int"))
    return rng.choice([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 77])


def _json(entity: Any, version: int) -> dict[str, Any]:
    fields = {}
    for known in dataclasses.fields(entity):
        if _is_in(known, version):
            value = getattr(entity, known.name)
            if "tag" in known.metadata and value == known.default and value is not None:
                continue
            words = known.name.split("_")
            fields[words[0] + "".join(word.title() for word in words[1:])] = _json_value(value, version)
    return fields


def _json_value(value: Any, version: int) -> Any:
    if dataclasses.is_dataclass(value):
        return _json(value, version)
    match value:
        case tuple():
            return [_json_value(one, version) for one in value]
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return uuid_to_text(value)
    return value
