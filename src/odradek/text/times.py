"""Parses and formats timestamps and durations."""

import re
from datetime import datetime, tzinfo
from typing import Final

from odradek.text.errors import UserError

# The syntax of Java's Duration.parse.
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:(T)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_time_ms(text: str, option: str, *, zone: tzinfo | None = None) -> int:
    """Parse ISO 8601 or milliseconds since the epoch. Without a zone in the text, `zone` or the local zone applies."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=zone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UserError(
            f"{option} {text!r} is not a timestamp. Use ISO 8601 (2026-01-31T12:00:00Z) or epoch milliseconds."
        ) from None


def parse_duration_ms(text: str, option: str) -> int:
    """Parse an ISO 8601 duration such as PT1H30M or P7D. Any part, and the whole, may be negative."""
    found = _DURATION.fullmatch(text)
    parts = found.groups() if found else ()
    amounts = [part for part in (*parts[1:2], *parts[3:6]) if part]
    if not amounts or (parts[2] and not any(parts[3:6])):
        raise UserError(f"{option} {text!r} is not an ISO 8601 duration. Examples: PT1H30M (90 minutes), P7D (7 days).")
    days, hours, minutes, seconds = (int(part or 0) for part in (parts[1], *parts[3:6]))
    fraction_ms = int((parts[6] or "").ljust(3, "0")[:3])
    if (parts[5] or "").startswith("-"):
        fraction_ms = -fraction_ms
    span_ms = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + fraction_ms
    return -span_ms if parts[0] == "-" else span_ms


def format_time(timestamp_ms: int) -> str:
    """Format as ISO 8601 in the local zone, or as the number itself if it is outside the calendar's range."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def format_span(span_ms: int) -> str:
    """Format a duration as an integer of the largest unit that fits at least twice."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 10_000)):
        if span_ms >= 2 * unit_ms:
            return f"{span_ms // (1000 if unit == 's' else unit_ms)} {unit}"
    return f"{max(0, span_ms) / 1000:.1f} s"
