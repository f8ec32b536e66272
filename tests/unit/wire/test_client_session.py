"""The client session: bytes in, events out, without any I/O."""

import struct
import tracemalloc
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.wire import client_session
from odradek.wire.apis import ApiKey
from odradek.wire.client_session import (
    ClientSession,
    DataToSend,
    Decode,
    Event,
    ResponseReceived,
    SessionFailed,
    TooManyInFlight,
    UnsupportedApi,
    VersionsNegotiated,
    VersionsRefused,
    decode_checked,
    decode_in_place,
)
from odradek.wire.headers import read_request_header
from odradek.wire.schemas import Message, schema
from tests import raw_wire

RESPONSE_BYTES_MAX = 100_000
HEARTBEAT = schema(ApiKey.BROKER_HEARTBEAT, 1)


def heartbeat() -> Message:
    return HEARTBEAT.new(
        "BrokerHeartbeatRequest",
        broker_id=1,
        broker_epoch=2,
        current_metadata_offset=3,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )


def heartbeat_response(correlation_id: int, *, is_fenced: bool = False) -> bytes:
    response = HEARTBEAT.new(
        "BrokerHeartbeatResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        is_caught_up=True,
        is_fenced=is_fenced,
        should_shut_down=False,
    )
    return frame(struct.pack(">i", correlation_id) + b"\0" + HEARTBEAT.write(response))


def versions_response(
    correlation_id: int, version: int, *ranges: tuple[int, int, int], error: ErrorCode = ErrorCode.none
) -> bytes:
    messages = schema(ApiKey.API_VERSIONS, version)
    features: dict[str, Any] = {}
    if version >= 3:
        feature = messages.new("SupportedFeatureKey", name="kraft.version", min_version=0, max_version=1)
        features = {"supported_features": (feature,), "finalized_features": ()}
    response = messages.new(
        "ApiVersionsResponse",
        error_code=error,
        api_keys=tuple(
            messages.new("ApiVersion", api_key=key, min_version=low, max_version=high) for key, low, high in ranges
        ),
        throttle_time=timedelta(0),
        **features,
    )
    return frame(struct.pack(">i", correlation_id) + messages.write(response))


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def new_session(decode: Decode = decode_checked) -> ClientSession:
    return ClientSession("test", response_bytes_max=RESPONSE_BYTES_MAX, decode=decode)


def ready_session(decode: Decode = decode_checked) -> ClientSession:
    session = new_session(decode)
    session.negotiate()
    response = versions_response(1, 4, (ApiKey.BROKER_HEARTBEAT, 0, 1), (ApiKey.METADATA, 0, 90))
    assert session.receive(response) == [VersionsNegotiated()]
    return session


def send_heartbeat(session: ClientSession, deadline: float | None = None) -> int:
    return session.send(HEARTBEAT, heartbeat(), deadline=deadline).correlation_id


def test_negotiation_starts_with_the_newest_version() -> None:
    session = new_session()
    header = read_request_header(bytearray(session.negotiate()[4:]))
    assert header[:4] == (ApiKey.API_VERSIONS, 4, 1, "test")
    events = session.receive(versions_response(1, 4, (ApiKey.FETCH, 4, 18)))
    assert events == [VersionsNegotiated()]
    assert session.served == {ApiKey.FETCH: (4, 18)}
    assert session.supported_features == {"kraft.version": (0, 1)}
    assert session.in_flight == 0


@pytest.mark.parametrize(("offered", "expected"), [((0, 3), 3), ((0, 0), 0), ((0, 99), 4), (None, 0)])
def test_negotiation_falls_back_to_a_version_of_the_server(offered: tuple[int, int] | None, expected: int) -> None:
    session = new_session()
    session.negotiate()
    ranges = () if offered is None else ((int(ApiKey.API_VERSIONS), *offered),)
    (event,) = session.receive(versions_response(1, 0, *ranges, error=ErrorCode.unsupported_version))
    assert isinstance(event, DataToSend)
    assert read_request_header(bytearray(event.data[4:]))[:3] == (ApiKey.API_VERSIONS, expected, 2)
    assert session.receive(versions_response(2, expected, (ApiKey.FETCH, 4, 11))) == [VersionsNegotiated()]
    assert session.served == {ApiKey.FETCH: (4, 11)}


def test_negotiation_falls_back_only_once() -> None:
    session = new_session()
    session.negotiate()
    session.receive(versions_response(1, 0, error=ErrorCode.unsupported_version))
    events = session.receive(versions_response(2, 0, error=ErrorCode.unsupported_version))
    assert events == [VersionsRefused(ErrorCode.unsupported_version)]


def test_negotiation_can_be_refused() -> None:
    session = new_session()
    session.negotiate()
    events = session.receive(versions_response(1, 4, error=ErrorCode.cluster_authorization_failed))
    assert events == [VersionsRefused(ErrorCode.cluster_authorization_failed)]


def test_choose_schema_returns_the_newest_common_version() -> None:
    session = ready_session()
    assert session.choose_schema(ApiKey.BROKER_HEARTBEAT).version == 1
    assert session.choose_schema(ApiKey.BROKER_HEARTBEAT, highest=0).version == 0
    assert session.choose_schema(ApiKey.METADATA).version == 13


@pytest.mark.parametrize(
    ("api_key", "highest", "served"), [(ApiKey.VOTE, None, None), (ApiKey.BROKER_HEARTBEAT, -1, (0, 1))]
)
def test_choose_schema_rejects_unsupported_apis(api_key: int, highest: int | None, served: Any) -> None:
    with pytest.raises(UnsupportedApi, match="does not support a known version of") as caught:
        ready_session().choose_schema(api_key, highest=highest)
    assert caught.value.served == served


def test_responses_are_matched_to_requests_in_order() -> None:
    session = ready_session()
    ids = [send_heartbeat(session) for _ in range(3)]
    assert ids == [2, 3, 4]
    assert session.in_flight == 3
    events = session.receive(b"".join(heartbeat_response(one, is_fenced=one == 3) for one in ids))
    assert [(event.correlation_id, event.response.is_fenced) for event in responses(events)] == [
        (2, False),
        (3, True),
        (4, False),
    ]
    assert session.in_flight == 0


def responses(events: list[Event]) -> list[ResponseReceived]:
    assert all(isinstance(event, ResponseReceived) for event in events)
    return [event for event in events if isinstance(event, ResponseReceived)]


@pytest.mark.parametrize("decode", [decode_checked, decode_in_place])
def test_a_response_may_be_split_at_every_byte(decode: Decode) -> None:
    data = heartbeat_response(2) + heartbeat_response(3)
    for split in range(len(data) + 1):
        session = ready_session(decode)
        ids = [send_heartbeat(session), send_heartbeat(session)]
        events = session.receive(data[:split]) + session.receive(data[split:])
        assert [event.correlation_id for event in responses(events)] == ids


def test_a_response_may_arrive_byte_by_byte() -> None:
    session = ready_session()
    send_heartbeat(session)
    events: list[Event] = []
    for byte in heartbeat_response(2):
        assert events == []
        events = session.receive(bytes((byte,)))
    assert [event.correlation_id for event in responses(events)] == [2]


def test_a_transport_may_read_into_the_buffer_of_the_session() -> None:
    session = ready_session(decode_in_place)
    send_heartbeat(session)
    data, events = heartbeat_response(2), []
    while data:
        space = session.get_buffer()
        size = min(len(space), len(data), 5)
        space[:size], data = data[:size], data[size:]
        events += session.buffer_updated(size)
    assert [event.correlation_id for event in responses(events)] == [2]


def test_a_response_with_records_is_copied_only_once() -> None:
    """From the frame to the decoded records: a follower receives megabytes at a time."""
    fetch, size = schema(ApiKey.FETCH, 17), 4 << 20
    body = raw_wire.build(
        fetch.response_type,
        {
            "error_code": ErrorCode.none,
            "responses": [
                {"topic_id": UUID(int=1), "partitions": [{"error_code": ErrorCode.none, "records": bytes(size)}]}
            ],
        },
    )
    session = ClientSession("test", response_bytes_max=2 * size)
    session.negotiate()
    session.receive(versions_response(1, 4, (ApiKey.FETCH, 4, 17)))
    sent = session.send(fetch, raw_wire.build(fetch.request_type, {}))
    data = frame(struct.pack(">i", sent.correlation_id) + b"\0" + fetch.write(body))
    tracemalloc.start()
    try:
        (event,) = session.receive(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(event, ResponseReceived)
    assert peak < 2.1 * size


def failure(events: list[Event]) -> str:
    assert isinstance(events[-1], SessionFailed)
    return events[-1].reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (heartbeat_response(99), "a response to request 99 instead of request 2"),
        (struct.pack(">i", RESPONSE_BYTES_MAX + 1), "announced a response of 100001 bytes"),
        (struct.pack(">i", -1), "announced a response of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak Kafka's protocol, or expects TLS"),
        (frame(b"\0\0"), "a response without a header"),
        (frame(struct.pack(">i", 2) + b"\0"), "cannot be decoded"),
        # An array of two billion elements in a few bytes.
        (frame(struct.pack(">i", 2) + b"\xff\xff\xff\xff\x0f" * 3), "cannot be decoded"),
        # An error code that is not known here.
        (frame(struct.pack(">i", 2) + b"\0" + struct.pack(">ih", 0, 30_000) + b"\0\0\0\0"), "cannot be decoded"),
    ],
    ids=["correlation id", "oversized", "negative", "HTTP", "no header", "short", "lengths", "error code"],
)
@pytest.mark.parametrize("decode", [decode_checked, decode_in_place])
def test_a_protocol_violation_fails_the_session(decode: Decode, data: bytes, reason: str) -> None:
    session = ready_session(decode)
    send_heartbeat(session)
    assert reason in failure(session.receive(data))
    # The request stays in flight: its transport fails it when it closes the connection.
    assert session.in_flight == 1
    assert session.receive(heartbeat_response(2)) == []


def test_a_response_without_a_request_fails_the_session() -> None:
    assert "none is in flight" in failure(ready_session().receive(heartbeat_response(2)))


def test_responses_before_a_violation_are_delivered_and_none_after_it() -> None:
    session = ready_session()
    ids = [send_heartbeat(session) for _ in range(3)]
    events = session.receive(heartbeat_response(2) + heartbeat_response(4) + heartbeat_response(3))
    assert ids == [2, 3, 4]
    assert [type(event) for event in events] == [ResponseReceived, SessionFailed]


def test_a_request_that_expects_no_response_is_not_in_flight() -> None:
    session = ready_session()
    sent = session.send(HEARTBEAT, heartbeat(), expects_response=False)
    assert (sent.correlation_id, session.in_flight) == (2, 0)
    assert send_heartbeat(session) == 3
    assert [event.correlation_id for event in responses(session.receive(heartbeat_response(3)))] == [3]


def test_the_number_of_requests_in_flight_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "IN_FLIGHT_MAX", 2)
    session = ready_session()
    send_heartbeat(session)
    send_heartbeat(session)
    with pytest.raises(TooManyInFlight):
        send_heartbeat(session)
    assert session.in_flight == 2


def test_a_request_that_cannot_be_encoded_is_not_in_flight() -> None:
    session = ready_session()
    with pytest.raises(struct.error):
        session.send(HEARTBEAT, replace(heartbeat(), broker_id=1 << 40))
    assert session.in_flight == 0
    assert send_heartbeat(session) == 2


def test_the_earliest_deadline_in_flight_counts() -> None:
    session = ready_session()
    assert session.seconds_left(now=1e9) is None
    send_heartbeat(session, deadline=12.0)
    send_heartbeat(session, deadline=10.0)
    send_heartbeat(session)
    assert session.seconds_left(now=9.5) == 0.5
    assert session.seconds_left(now=11.0) == 0.0
    session.receive(heartbeat_response(2) + heartbeat_response(3))
    assert session.seconds_left(now=11.0) is None


def test_a_second_negotiation_request_keeps_the_deadline() -> None:
    session = new_session()
    session.negotiate(deadline=5.0)
    session.receive(versions_response(1, 0, error=ErrorCode.unsupported_version))
    assert session.seconds_left(now=4.0) == 1.0


def test_correlation_ids_wrap_around() -> None:
    session = ready_session()
    session._correlation_id = 0x7FFFFFFE
    assert [send_heartbeat(session), send_heartbeat(session)] == [0x7FFFFFFF, 0]
    events = session.receive(heartbeat_response(0x7FFFFFFF) + heartbeat_response(0))
    assert [event.correlation_id for event in responses(events)] == [0x7FFFFFFF, 0]
