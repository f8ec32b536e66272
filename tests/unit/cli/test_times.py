import pytest

from odradek.cli.errors import UserError
from odradek.cli.times import format_span, format_time, parse_time_ms


def test_milliseconds_and_iso_8601() -> None:
    assert parse_time_ms("1700000000123", "--from") == 1700000000123
    assert parse_time_ms("2023-11-14T22:13:20Z", "--from") == 1700000000000
    assert parse_time_ms("2023-11-14T23:13:20.5+01:00", "--from") == 1700000000500


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01", "-5", "٣"])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"--from .* is not a time"):
        parse_time_ms(text, "--from")


def test_a_time_beyond_any_calendar_is_shown_as_it_is() -> None:
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
def test_spans_at_a_glance(span_ms: int, text: str) -> None:
    assert format_span(span_ms) == text
