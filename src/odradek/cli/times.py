"""Points and spans of time as people write them."""

from datetime import datetime

from odradek.cli.errors import UserError


def parse_time_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 from a number of them or from ISO 8601; without a zone, the local one is meant."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UserError(f"{option} {text!r} is not a time: write 2026-01-31T12:00:00Z, or milliseconds") from None


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
