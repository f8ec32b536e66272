"""Parses and formats config values by type, as Kafka does.

`definitions` has the type, range and default of each config.
"""

import re
from enum import IntEnum
from typing import Self, TypeAlias

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """Numbered as DescribeConfigs puts them on the wire."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValue(ValueError):
    """An invalid value. The text is Kafka's error message."""

    @classmethod
    def because(cls, name: str, value: ConfigValue, reason: str) -> Self:
        return cls(f"Invalid value {_format_as_java(value)} for configuration {name}: {reason}")


_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
_COMMA = re.compile(r"\s*,\s*")


def parse_value(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """Raises InvalidValue if the text is not of that type. Does not check ranges."""
    trimmed = text.strip()
    if kind in _BITS:
        return _parse_integer(name, kind, text, trimmed)
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise InvalidValue.because(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind is ConfigType.DOUBLE:
        return _parse_double(name, text, trimmed)
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(trimmed)) if trimmed else ()
    return trimmed


def _parse_integer(name: str, kind: ConfigType, text: str, trimmed: str) -> int:
    bits = _BITS[kind]
    # Longer texts are out of range anyway, and slow to convert.
    if _INTEGER.fullmatch(trimmed) and len(trimmed) <= 40:
        number = int(trimmed)
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
    raise InvalidValue.because(name, text, f"Not a number of type {kind.name}")


def _parse_double(name: str, text: str, trimmed: str) -> float:
    if _DOUBLE.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    raise InvalidValue.because(name, text, "Not a number of type DOUBLE")


def format_value(value: ConfigValue) -> str | None:
    """The text of a typed value, formatted as by Kafka."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _format_double(value)
    return ",".join(value)


def _format_double(value: float) -> str:
    """As Java prints doubles: `0.5`, `1.0E7`, `1.7976931348623157E308`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exponent = f"{value:e}".partition("e")[2]
    # repr gives the fewest digits that identify the number; only its notation differs from Java's.
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


def _format_as_java(value: ConfigValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return format_value(value) or ("null" if value is None else "")
