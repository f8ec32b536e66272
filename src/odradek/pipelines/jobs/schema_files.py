"""Reads schema files: Avro schemas in JSON, and Protobuf descriptor sets of protoc."""

import base64
import json
import re
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.jobs.values import fields_reader
from odradek.pipelines.schemas.schema import AVRO, PROTOBUF, Reference, Schema, Undecodable
from odradek.text.errors import UserError, as_sentence

_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
_PROTO: Final = re.compile(rb"^\s*(syntax|edition|package|import|message|//|/\*)", re.MULTILINE)


def read_schema_file(file: Path, *, message: str | None, is_framed: bool) -> Schema:
    """Raises UserError. Without framing, the Protobuf message must be known."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read schema file {str(file)!r}: {error.strerror}.") from None
    if len(data) > _FILE_BYTES_MAX:
        raise UserError(f"Schema file {str(file)!r} has {len(data):,} bytes. The maximum is {_FILE_BYTES_MAX:,}.")
    schema = _avro(data) or _protobuf(file, data, message, is_framed)
    try:
        fields_reader(schema)
    except Undecodable as error:
        raise UserError(as_sentence(f"Cannot use schema file {str(file)!r}: {error}")) from None
    return schema


def _avro(data: bytes) -> Schema | None:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return None
    return Schema(type=AVRO, text=data.decode())


def _protobuf(file: Path, data: bytes, message: str | None, is_framed: bool) -> Schema:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    if _PROTO.search(data[:4096]) and b"{" in data:
        raise UserError(
            f"{str(file)!r} is Protobuf source. Compile it with `protoc --include_imports --descriptor_set_out=FILE` "
            "and use that file."
        )
    try:
        files = list(FileDescriptorSet.FromString(data).file)
    except DecodeError:
        files = []
    if not files:
        raise UserError(f"{str(file)!r} is neither an Avro schema in JSON nor a Protobuf descriptor set.")
    at = len(files) - 1
    if not is_framed:
        at, message = _find(file, files, message)
    return Schema(
        type=PROTOBUF,
        text=_text(files[at]),
        references=tuple(Reference(name=one.name, text=_text(one)) for one in files[:at]),
        message=None if is_framed else message,
    )


def _find(file: Path, files: list[Any], message: str | None) -> tuple[int, str]:
    """Return the index of the message's file, which is the last by default, after its dependencies."""
    names = [[f"{one.package}.{each.name}".lstrip(".") for each in one.message_type] for one in files]
    if message is None and len(names[-1]) == 1:
        return len(files) - 1, names[-1][0]
    for at, among in enumerate(names):
        if message in among:
            return at, str(message)
    problem = f"{message!r} is not in {str(file)!r}" if message else f"{str(file)!r} has several messages"
    raise UserError(f"--message: {problem}. Choose one of {', '.join(names[-1][:20])}.")


def _text(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()
