"""Parses the input of forms. Raises Refused with the input and the expected format."""

from odradek.console.actions.action import Refused
from odradek.console.readings.table import inert
from odradek.text.errors import UserError, as_sentence
from odradek.text.times import parse_time_ms


def whole_number(text: str, what: str, *, least: int = 0, most: int = 2**31 - 1) -> int:
    given = text.strip().replace(",", "").replace("_", "")
    if not given.isascii() or not given.removeprefix("-").isdigit() or len(given) > 20:
        raise Refused(f"{what} must be a whole number, not {inert(text.strip())!r}.")
    if not least <= int(given) <= most:
        raise Refused(f"{what} must be between {least:,} and {most:,}, not {int(given):,}.")
    return int(given)


def optional_number(text: str, what: str, *, least: int = 1, most: int = 2**31 - 1) -> int | None:
    return whole_number(text, what, least=least, most=most) if text.strip() else None


def pairs(text: str, what: str) -> dict[str, str]:
    """Parses `name=value` lines."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise Refused(f"{what} {inert(line.strip())!r} does not have the form name=value.")
            found[name.strip()] = value.strip()
    return found


def broker_ids(text: str, what: str) -> tuple[int, ...]:
    """Parses items separated by commas or spaces."""
    parts = text.replace(",", " ").split()
    return tuple(whole_number(part, what) for part in parts)


def point_in_time(text: str, what: str) -> int:
    """Parses milliseconds or an ISO 8601 time into milliseconds."""
    try:
        return parse_time_ms(text.strip(), what)
    except UserError as error:
        raise Refused(as_sentence(str(error))) from None
