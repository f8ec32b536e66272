"""Points in time as people write them."""

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
