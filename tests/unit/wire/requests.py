"""Requests of the raw wire, without their length prefix."""

import struct
from typing import Any

from odradek.wire.schemas import schema
from tests.apis import Api
from tests.raw_wire import encode_request


def body_of(request: bytes) -> tuple[int, int, int]:
    """API, version and where the body starts in a request of the raw wire, whose client id is known."""
    api, version, _, client_id_size = struct.unpack_from(">hhih", request)
    flexible = schema(api, version).flexible
    return api, version, 10 + client_id_size + (1 if flexible else 0)


def unframed(api: Api, version: int, fields: dict[str, Any]) -> bytes:
    return encode_request(api, version, 1, fields)[4:]
