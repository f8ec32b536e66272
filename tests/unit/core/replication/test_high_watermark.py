"""The one owner of a replica's high watermark."""

import pytest

from odradek.core.replication.high_watermark import UNKNOWN_BYTES, HighWatermark


def test_high_watermark_never_decreases_on_advance() -> None:
    high_watermark = HighWatermark(5)
    assert high_watermark.advance_to(7)
    assert not high_watermark.advance_to(7)
    assert not high_watermark.advance_to(6)
    assert high_watermark.offset == 7


def test_every_advance_is_reported_after_it_is_visible() -> None:
    reported: list[tuple[int, int]] = []
    high_watermark = HighWatermark(0, lambda added_bytes: reported.append((high_watermark.offset, added_bytes)))
    high_watermark.advance_to(3, 100)
    high_watermark.advance_to(3, 100)
    high_watermark.advance_to(4)
    assert reported == [(3, 100), (4, UNKNOWN_BYTES)]


def test_truncation_below_the_high_watermark_lowers_it_without_a_report() -> None:
    reported: list[int] = []
    high_watermark = HighWatermark(10, reported.append)
    high_watermark.on_truncation(0, 12)
    assert high_watermark.offset == 10
    high_watermark.on_truncation(0, 8)
    assert (high_watermark.offset, reported) == (8, [])


def test_log_that_restarts_at_a_higher_offset_raises_the_high_watermark() -> None:
    reported: list[int] = []
    high_watermark = HighWatermark(10, reported.append)
    high_watermark.on_truncation(100, 100)
    assert (high_watermark.offset, reported) == (100, [UNKNOWN_BYTES])


def test_log_whose_start_is_after_its_end_is_rejected() -> None:
    with pytest.raises(AssertionError, match="log start 9 is after log end 8"):
        HighWatermark(10).on_truncation(9, 8)
