"""`throttle_time_ms` in responses, encoded or not."""

from dataclasses import fields
from datetime import timedelta
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.wire.apis import APIS, ApiKey
from odradek.wire.fetch_codec import write_fetch_response
from odradek.wire.produce_codec import PartitionResult, TopicResult, write_produce_response
from odradek.wire.schemas import schema
from odradek.wire.throttle_time import patch_throttle_ms, set_throttle_ms, throttle_ms_of, throttle_offset

TOPIC_ID = UUID(int=7)
EXPIRY_MS = 1_800_000_000_000


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_leader_or_follower])
def test_encoded_produce_response_gets_the_delay(version: int, error: ErrorCode) -> None:
    messages = schema(ApiKey.PRODUCE, version)
    topic = TopicResult("orders", TOPIC_ID if version >= 13 else None, [PartitionResult(0, error, 5)] * 2)
    response = write_produce_response([topic], version)
    patched = patch_throttle_ms([response], messages, 4711)
    assert patched == [write_produce_response([topic], version, 4711)]
    assert throttle_ms_of(messages.read_response(patched[0], 0)[0]) == 4711


@pytest.mark.parametrize("version", range(4, 19))
def test_encoded_fetch_response_gets_the_delay(version: int) -> None:
    response = write_fetch_response([], version)
    assert isinstance(response, list)
    patched = patch_throttle_ms(response, schema(ApiKey.FETCH, version), 4711)
    assert patched == write_fetch_response([], version, throttle_ms=4711)


@pytest.mark.parametrize("version", range(14))
def test_old_metadata_responses_have_no_delay(version: int) -> None:
    messages = schema(ApiKey.METADATA, version)
    values = {"brokers": (), "cluster_id": None, "controller_id": 1, "topics": (), "cluster_authorized_operations": 0}
    values |= {"throttle_time": timedelta(0), "error_code": ErrorCode.none}
    response = messages.new("MetadataResponse", **values)
    expected = set_throttle_ms(response, 4711)
    assert throttle_ms_of(expected) == (4711 if version >= 3 else 0)
    assert patch_throttle_ms([messages.write(response)], messages, 4711) == [messages.write(expected)]


def test_encoded_response_with_an_error_code_in_front_gets_the_delay() -> None:
    messages = schema(ApiKey.OFFSET_DELETE, 0)
    values = {"error_code": ErrorCode.invalid_group_id, "throttle_time": timedelta(0), "topics": ()}
    response = messages.new("OffsetDeleteResponse", **values)
    assert patch_throttle_ms([messages.write(response)], messages, 4711) == [
        messages.write(set_throttle_ms(response, 4711))
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_encoded_response_with_the_delay_at_its_end_gets_it(version: int) -> None:
    messages = schema(ApiKey.RENEW_DELEGATION_TOKEN, version)
    values = {"error_code": ErrorCode.none, "expiry_timestamp": EXPIRY_MS, "throttle_time": timedelta(0)}
    response = messages.new("RenewDelegationTokenResponse", **values)
    assert patch_throttle_ms([messages.write(response)], messages, 4711) == [
        messages.write(set_throttle_ms(response, 4711))
    ]


def test_delay_has_a_fixed_place_in_all_other_responses() -> None:
    elsewhere = {
        key
        for key, api in APIS.items()
        if api.high >= 0 and throttle_offset(messages := schema(key, api.high)) is None
        if "throttle_time" in [field.name for field in fields(messages.response_type)]
    }
    assert elsewhere == {ApiKey.PRODUCE, ApiKey.API_VERSIONS}
