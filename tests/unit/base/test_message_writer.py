"""Against kio's own writers: every message of its oldest and newest version, and every metadata record."""

import dataclasses
import io
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from types import NoneType, UnionType
from typing import Any
from uuid import UUID

import pytest
from kio.schema.fetch_snapshot.v1.response import LeaderIdAndEpoch
from kio.schema.index import api_key_map
from kio.serial import entity_writer
from kio.serial.errors import OutOfBoundValue

from odradek.base.errors import ErrorCode
from odradek.base.message_writer import message_writer
from odradek.core.metadata.records.codec import RECORD_TYPES

BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}
TEXTS = ("", "orders", "größer", "x" * 127, "x" * 128, "x" * 20_000)


class Maker:
    """Messages with anything in them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def entity(self, entity_type: Any) -> Any:
        hints = typing.get_type_hints(entity_type)
        values = {}
        for field in dataclasses.fields(entity_type):
            is_left_out = field.default is not dataclasses.MISSING and self._random.random() < 0.4
            if not is_left_out:
                nullable = "tag" not in field.metadata
                values[field.name] = self._value(hints[field.name], field.metadata.get("kafka_type"), nullable)
        return entity_type(**values)

    def _value(self, hint: Any, kafka_type: str | None, nullable: bool) -> Any:
        random = self._random
        if isinstance(hint, UnionType):
            (hint,) = (option for option in typing.get_args(hint) if option is not NoneType)
            if nullable and random.random() < 0.3:
                return None
        if typing.get_origin(hint) is tuple:
            element = typing.get_args(hint)[0]
            counts = (0, 1, 2) if dataclasses.is_dataclass(element) else (0, 1, 2, 130)
            return tuple(self._value(element, kafka_type, False) for _ in range(random.choice(counts)))
        if dataclasses.is_dataclass(hint):
            return self.entity(hint)
        if kafka_type in BITS:
            value = random.getrandbits(random.randrange(BITS[kafka_type] + 1))
            return -value if kafka_type.startswith("int") and random.random() < 0.3 else value
        match kafka_type:
            case "string":
                return random.choice(TEXTS)
            case "bytes" | "records":
                return random.choice(TEXTS).encode()
            case "bool":
                return random.random() < 0.5
            case "float64":
                return random.uniform(-1e9, 1e9)
            case "uuid":
                return UUID(int=random.getrandbits(128))
            case "error_code":
                return random.choice(list(ErrorCode))
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=random.randrange(-1, 10_000_000))
            case "datetime_i64":
                return datetime.fromtimestamp(random.randrange(2_000_000_000), UTC)
        raise AssertionError(f"{hint} as {kafka_type}")


def messages() -> Iterator[Any]:
    for name in api_key_map.values():
        package = import_module(f"kio.schema.{name}")
        versions = sorted(int(one.name.removeprefix("v")) for one in iter_modules(package.__path__))
        for version in {versions[0], versions[-1]}:
            for side in ("request", "response"):
                module = import_module(f"kio.schema.{name}.v{version}.{side}")
                yield getattr(module, "".join(map(str.capitalize, name.split("_"))) + side.capitalize())


def as_kio(entity_type: Any, entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, entity)
    return buffer.getvalue()


def as_here(entity_type: Any, entity: Any) -> bytes:
    out = bytearray()
    message_writer(entity_type)(out, entity)
    return bytes(out)


def test_every_message_is_encoded_as_by_kio() -> None:
    maker = Maker(1)
    types = [*messages(), *RECORD_TYPES.values()]
    assert len(types) > 300
    for entity_type in types:
        for _ in range(5):
            entity = maker.entity(entity_type)
            assert as_here(entity_type, entity) == as_kio(entity_type, entity), entity


def test_none_in_a_field_that_is_not_nullable_is_rejected() -> None:
    for entity_type in messages():
        hints = typing.get_type_hints(entity_type)
        for field in dataclasses.fields(entity_type):
            if (
                field.metadata.get("kafka_type") == "string"
                and hints[field.name] is str
                and "tag" not in field.metadata
            ):
                entity = dataclasses.replace(Maker(1).entity(entity_type), **{field.name: None})
                with pytest.raises(TypeError):
                    as_here(entity_type, entity)


def test_a_string_longer_than_its_length_can_say() -> None:
    chosen: Any = import_module("kio.schema.find_coordinator.v0.request").FindCoordinatorRequest
    with pytest.raises(OutOfBoundValue):
        as_here(chosen, chosen(key="x" * 40_000))


def test_what_is_not_said_is_what_the_reader_supposes() -> None:
    """A tagged struct without a default of its own, whose fields have none either."""
    chosen: Any = import_module("kio.schema.fetch_snapshot.v1.response").PartitionSnapshot
    no_leader = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
    leader_one = LeaderIdAndEpoch(leader_id=1, leader_epoch=0)
    some = Maker(3).entity(chosen)
    without, with_leader = (dataclasses.replace(some, current_leader=leader) for leader in (no_leader, leader_one))
    assert as_here(chosen, without) == as_kio(chosen, without)
    assert as_here(chosen, with_leader) == as_kio(chosen, with_leader)
    assert len(as_here(chosen, without)) < len(as_here(chosen, with_leader))
