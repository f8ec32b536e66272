"""ApiVersions, and requests that never reach a handler: unknown APIs, unserved versions, broken frames and headers."""

import struct
from dataclasses import replace
from typing import Any

from tests.apis import Api, versions
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.raw_wire import encode_request

CLIENT = {"client_software_name": "side-by-side", "client_software_version": "1.0"}

FIRST_VERSION = (Api.API_VERSIONS, 0)
METADATA_V1 = (Api.METADATA, 1)


@scenario
def api_versions(talk: Conversation) -> None:
    """Only the APIs that Odradek serves are compared: it advertises what works."""
    for version in versions(Api.API_VERSIONS):
        response = talk.request_quietly(Api.API_VERSIONS, CLIENT, version=version)
        talk.write(f"api_versions v{version}", _served(response))
    talk.request("a client software name with spaces", Api.API_VERSIONS, {**CLIENT, "client_software_name": "a client"})
    talk.request("an empty client software name", Api.API_VERSIONS, {**CLIENT, "client_software_name": ""})
    talk.request("an empty client software version", Api.API_VERSIONS, {**CLIENT, "client_software_version": ""})


def _served(response: Any) -> Any:
    return replace(response, api_keys=tuple(api for api in response.api_keys if api.api_key in set(Api)))


@scenario
def unserved_versions(talk: Conversation) -> None:
    talk.send_bytes("api_versions v99", _header(Api.API_VERSIONS, 99) + b"\0\x05name\x021\0", decoded_as=FIRST_VERSION)
    talk.send_bytes("api_versions v5 without a body", _header(Api.API_VERSIONS, 5) + b"\0", decoded_as=FIRST_VERSION)
    talk.send_bytes("api_versions v-1", _header(Api.API_VERSIONS, -1), decoded_as=FIRST_VERSION)
    for api in Api:
        if api is not Api.API_VERSIONS:
            beyond = versions(api).stop
            talk.send_bytes(f"{api.name.lower()} v{beyond}: above the highest version", _header(api, beyond))
    talk.send_bytes("produce v2: below the lowest served version", _header(Api.PRODUCE, 2))
    talk.send_bytes("fetch v3: below the lowest served version", _header(Api.FETCH, 3))
    talk.send_bytes("create_topics v1: below the lowest served version", _header(Api.CREATE_TOPICS, 1))
    talk.send_bytes("an API nobody knows", _header(999, 0))
    talk.send_bytes("a negative API key", _header(-1, 0))
    talk.send_bytes("an API of controllers", _header(52, 0))


@scenario
def broken_frames(talk: Conversation) -> None:
    metadata = encode_request(Api.METADATA, 9, 1, {"topics": None})[4:]
    produce = encode_request(Api.PRODUCE, 9, 1, {"acks": 1, "timeout": 1000, "topic_data": []})[4:]
    talk.send_bytes("a frame without a byte", b"")
    talk.send_bytes("a negative length", struct.pack(">i", -1), length_in_front=False)
    talk.send_bytes("a length of 2 GiB", struct.pack(">i", 0x7FFFFFFF) + metadata, length_in_front=False)
    talk.send_bytes("a length just above socket.request.max.bytes", struct.pack(">i", 104857601), length_in_front=False)
    talk.send_bytes("half a header", metadata[:5])
    talk.send_bytes("a header whose client id is longer than the frame", struct.pack(">hhih", 3, 1, 7, 500) + b"abc")
    talk.send_bytes(
        "a header with client id of length -2", struct.pack(">hhihi", 3, 1, 7, -2, 0), decoded_as=METADATA_V1
    )
    talk.send_bytes("no body", _header(Api.METADATA, 1))
    talk.send_bytes("half a body", metadata[:-2])
    talk.send_bytes("bytes after the body", metadata + b"more", decoded_as=(Api.METADATA, 9))
    talk.send_bytes("an array longer than the frame", _header(Api.METADATA, 1) + struct.pack(">i", 1_000_000))
    talk.send_bytes("an array of 2 G elements", _header(Api.METADATA, 1) + struct.pack(">i", 0x7FFFFFFF))
    negative_length = _header(Api.METADATA, 1) + struct.pack(">i", -2)
    talk.send_bytes("an array of length -2", negative_length, decoded_as=METADATA_V1)
    talk.send_bytes("a null array that may not be null", _header(Api.METADATA, 0) + struct.pack(">i", -1))
    talk.send_bytes("a null topic name", _header(Api.METADATA, 1) + struct.pack(">ih", 1, -1))
    not_utf8 = _header(Api.METADATA, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe"
    talk.send_bytes("a topic name that is not UTF-8", not_utf8, decoded_as=METADATA_V1)
    talk.send_bytes(
        "unknown tagged fields in header and body", _with_tagged_fields(), decoded_as=(Api.DESCRIBE_CLUSTER, 0)
    )
    talk.send_bytes("a tagged field longer than the frame", produce[:-1] + b"\x01\x05\xff\x7f")
    talk.send_bytes("a varint of six bytes", produce[:-1] + b"\xff\xff\xff\xff\xff\xff")


def _header(api: int, version: int) -> bytes:
    """A header of version 1, which older and newer brokers read for any API."""
    return struct.pack(">hhih", api, version, 7, -1)


def _with_tagged_fields() -> bytes:
    header = struct.pack(">hhih", Api.DESCRIBE_CLUSTER, 0, 7, -1) + b"\x01\x09\x02hi"
    return header + b"\0" + b"\x01\x0a\x01x"
