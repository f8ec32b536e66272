"""Points and spans of time as people write them."""

import re
from datetime import datetime, tzinfo
from typing import Final

from odradek.text.errors import UserError

# What Java's Duration.parse takes.
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:(T)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_time_ms(text: str, option: str, *, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970 from a number of them or from ISO 8601. Where that names no zone, `zone` is meant, or
    the local one.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=zone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UserError(f"{option} {text!r} is not a time: write 2026-01-31T12:00:00Z, or milliseconds") from None


def parse_duration_ms(text: str, option: str) -> int:
    """Milliseconds from a span of ISO 8601, as PT1H30M or P7D; any part, and the whole, may be negative."""
    found = _DURATION.fullmatch(text)
    parts = found.groups() if found else ()
    amounts = [part for part in (*parts[1:2], *parts[3:6]) if part]
    if not amounts or (parts[2] and not any(parts[3:6])):
        raise UserError(
            f"{option} {text!r} is not a span of time: write PT1H30M for an hour and a half, P7D for a week"
        )
    days, hours, minutes, seconds = (int(part or 0) for part in (parts[1], *parts[3:6]))
    fraction_ms = int((parts[6] or "").ljust(3, "0")[:3])
    if (parts[5] or "").startswith("-"):
        fraction_ms = -fraction_ms
    span_ms = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + fraction_ms
    return -span_ms if parts[0] == "-" else span_ms


def format_time(timestamp_ms: int) -> str:
    """ISO 8601 in the local zone, to the millisecond; the bare number where no calendar reaches."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def format_span(span_ms: int) -> str:
    """A length of time in the largest unit that it fills twice, as rough as one needs it at a glance."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 10_000)):
        if span_ms >= 2 * unit_ms:
            return f"{span_ms // (1000 if unit == 's' else unit_ms)} {unit}"
    return f"{max(0, span_ms) / 1000:.1f} s"
