"""Requests by kind and version: all are counted; of very many only some are measured, and stand for the rest."""

from odradek.base.errors import ErrorCode
from odradek.instruments.histogram import quantiles
from odradek.instruments.requests import (
    FROM_CONSUMERS,
    FROM_FOLLOWERS,
    MEASURED_MAX,
    STRIDE_MAX,
    RequestCount,
    RequestMeter,
    RequestMeters,
)


def handle(requests: RequestCount, seconds: float = 0.001) -> bool:
    """As a connection does. Returns whether the request was measured."""
    requests.left -= 1
    if requests.left:
        return False
    requests.restart_stride()
    requests.measure(0.0, seconds, 3 * seconds, 7 * seconds)
    return True


def test_request_time_is_split_into_queue_local_and_remote() -> None:
    meters = RequestMeters()
    handle(meters.meter("Metadata", 12).requests, 0.01)
    kind = meters.kinds["Metadata"]
    for histogram, expected in ((kind.queue, 0.01), (kind.local, 0.02), (kind.remote, 0.04), (kind.total, 0.07)):
        assert abs(quantiles([histogram], [0.5])[0] - expected) < expected / 8
        assert abs(histogram.sum_seconds - expected) < 1e-9


def test_counts_are_per_version_not_per_connection() -> None:
    meters = RequestMeters()
    for version in (11, 12, 12):
        handle(meters.meter("Metadata", version).requests)
    kind = meters.kinds["Metadata"]
    assert {version: requests.count for version, requests in kind.versions.items()} == {11: 1, 12: 2}
    assert kind.count == kind.total.count == 3


def test_fetch_requests_of_followers_are_counted_separately() -> None:
    meters = RequestMeters()
    consumer, follower = meters.meter("Fetch", 17), meters.meter("Fetch", 17)
    for _ in range(3):
        handle(consumer.requests)
        handle(follower.requests)
        follower.count_as_follower()
    assert (meters.kinds[FROM_CONSUMERS].count, meters.kinds[FROM_FOLLOWERS].count) == (3, 3)
    metadata = meters.meter("Metadata", 1)
    metadata.count_as_follower()
    assert metadata.requests.kind.name == "Metadata"


def test_all_requests_are_timed_at_low_rates_and_a_sample_at_high_rates() -> None:
    requests = RequestMeters().meter("Produce", 11).requests
    assert all(handle(requests) for _ in range(MEASURED_MAX))
    taken = sum(handle(requests) for _ in range(500_000))
    assert taken < 500_000 / STRIDE_MAX + STRIDE_MAX.bit_length() * MEASURED_MAX
    assert requests.count == MEASURED_MAX + 500_000
    assert abs(requests.kind.total.count - requests.count) < 8 * STRIDE_MAX
    for _ in range(STRIDE_MAX.bit_length() - 1):
        requests.kind.mark()
        assert requests.count == MEASURED_MAX + 500_000
    assert handle(requests)
    assert requests.count == MEASURED_MAX + 500_001


def test_errors_are_counted_by_kafka_name() -> None:
    meters = RequestMeters()
    meter: RequestMeter = meters.meter("Produce", 11)
    meter.count_errors(
        [ErrorCode.not_leader_or_follower, ErrorCode.not_leader_or_follower, ErrorCode.message_too_large]
    )
    assert meters.kinds["Produce"].errors == {"NOT_LEADER_OR_FOLLOWER": 2, "MESSAGE_TOO_LARGE": 1}
