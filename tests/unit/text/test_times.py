from datetime import UTC

import pytest

from odradek.text.errors import UserError
from odradek.text.times import format_span, format_time, parse_duration_ms, parse_time_ms


def test_epoch_milliseconds_and_iso_8601_are_parsed() -> None:
    assert parse_time_ms("1700000000123", "--from") == 1700000000123
    assert parse_time_ms("2023-11-14T22:13:20Z", "--from") == 1700000000000
    assert parse_time_ms("2023-11-14T23:13:20.5+01:00", "--from") == 1700000000500


def test_the_zone_applies_to_times_without_one() -> None:
    assert parse_time_ms("2023-11-14T22:13:20.000", "--to-datetime", zone=UTC) == 1700000000000
    assert parse_time_ms("2023-11-14T23:13:20+0100", "--to-datetime", zone=UTC) == 1700000000000


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [
        ("PT0S", 0),
        ("PT1H30M", 5_400_000),
        ("p7d", 604_800_000),
        ("P1DT1H1M1.5S", 90_061_500),
        ("PT0.0019S", 1),
        ("PT-0.5S", -500),
        ("-PT1M", -60_000),
        ("PT-6H3M", -21_420_000),
        ("+PT1M", 60_000),
    ],
)
def test_durations_are_parsed_as_in_java(text: str, span_ms: int) -> None:
    assert parse_duration_ms(text, "--by-duration") == span_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "PT1", "PT1X", "P1W", "PT٣S", "PT1H "])
def test_invalid_durations_are_rejected(text: str) -> None:
    with pytest.raises(UserError, match=r"--by-duration .* is not an ISO 8601 duration"):
        parse_duration_ms(text, "--by-duration")


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01", "-5", "٣"])
def test_invalid_timestamps_are_rejected(text: str) -> None:
    with pytest.raises(UserError, match=r"--from .* is not a timestamp"):
        parse_time_ms(text, "--from")


def test_a_timestamp_outside_the_calendar_is_shown_as_a_number() -> None:
    assert format_time(1 << 62) == str(1 << 62)
    assert parse_time_ms(format_time(1700000000123), "") == 1700000000123


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (-5, "0.0 s"),
        (449, "0.4 s"),
        (19_940, "19.9 s"),
        (20_000, "20 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 d"),
    ],
)
def test_durations_are_formatted_in_the_largest_fitting_unit(span_ms: int, text: str) -> None:
    assert format_span(span_ms) == text
