"""Messages between a node and its worker processes, over pipes: JSON and bytes, never objects."""

import json
import os
from struct import Struct
from typing import Any, Final

from odradek.base.errors import ErrorCode, KafkaError, WorkerFailed
from odradek.base.ports import Message

# The sizes of the JSON text and of the bytes that follow it.
_SIZES: Final = Struct(">QQ")
_READ_BYTES_MAX: Final = 1 << 20
_NO_MESSAGE: Final = Message({})

# To a worker:
START: Final = "start"
NEXT: Final = "next"
# From a worker:
MESSAGE: Final = "message"
ERROR: Final = "error"
# To a worker: end the task now. From a worker: the task has ended.
END: Final = "end"


class PipeClosed(Exception):
    """The process at the other end has ended."""


def write_frame(descriptor: int, kind: str, message: Message | None = None) -> None:
    fields, data = message or _NO_MESSAGE
    text = json.dumps([kind, fields]).encode()
    try:
        for part in (_SIZES.pack(len(text), len(data)) + text, data):
            _write_all(descriptor, memoryview(part))
    except BrokenPipeError as error:
        raise PipeClosed from error


def read_frame(descriptor: int) -> tuple[str, Message]:
    """The kind and the message of the next frame."""
    text_bytes, data_bytes = _SIZES.unpack(_read_all(descriptor, _SIZES.size))
    kind, fields = json.loads(_read_all(descriptor, text_bytes))
    return kind, Message(fields, _read_all(descriptor, data_bytes))


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read_all(descriptor: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(descriptor, min(size, _READ_BYTES_MAX))
        if not part:
            raise PipeClosed
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def error_message(error: Exception) -> Message:
    fields: dict[str, Any] = {"text": f"{type(error).__name__}: {error}"}
    if isinstance(error, KafkaError):
        fields |= {"code": int(error.code), "message": error.message}
    elif isinstance(error, OSError):
        fields |= {"errno": error.errno, "strerror": error.strerror, "filename": error.filename}
    return Message(fields)


def raise_error(message: Message) -> None:
    fields = message.fields
    if "code" in fields:
        raise KafkaError(ErrorCode(fields["code"]), fields["message"])
    if "errno" in fields:
        raise OSError(fields["errno"], fields["strerror"], fields["filename"])
    raise WorkerFailed(fields["text"])
