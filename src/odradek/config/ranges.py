"""The valid ranges of configs, parsed from the notation of `kafka_configs.json`.

- numbers: `[1,...]`, `[0,...,1]`, `[1,...,9] or -1`
- one of these texts: `[a, b, c]`, `(case insensitive) [a, b]`
- lists: `distinct`, `distinct non-empty`, `distinct of [a, b]`
- texts: `non-empty string`, `non-null string`
"""

import re
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from odradek.config.values import ConfigValue, InvalidValue

Check: TypeAlias = Callable[[str, ConfigValue], ConfigValue]
"""Takes a config's name and typed value, and returns the value. Raises InvalidValue with Kafka's message."""

_BOUNDS = re.compile(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?")
_CHOICES = re.compile(r"(\(case insensitive\) )?\[(\w[^\]]*)\]")
_DISTINCT = re.compile(r"distinct( non-empty)?(?: of \[([^\]]*)\])?")
_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


@cache
def check_for(notation: str) -> Check:
    if distinct := _DISTINCT.fullmatch(notation):
        return _list_check(distinct)
    if bounds := _BOUNDS.fullmatch(notation):
        return _number_check(bounds)
    if notation == "non-empty string":
        return _not_empty
    if notation.startswith("[partitionId]"):
        return _throttled_replicas
    if choices := _CHOICES.fullmatch(notation):
        return _choice_check(choices)
    return _accept_any


def _accept_any(name: str, value: ConfigValue) -> ConfigValue:
    return value


def _not_empty(name: str, value: ConfigValue) -> ConfigValue:
    if not value:
        raise InvalidValue.because(name, value, "String must be non-empty")
    return value


def _number_check(bounds: re.Match[str]) -> Check:
    low, high = float(bounds[1]), float(bounds[2] or "inf")
    exception = float(bounds[3]) if bounds[3] else None

    def check(name: str, value: ConfigValue) -> ConfigValue:
        assert isinstance(value, int | float)
        if value == exception or not (value < low or value > high):
            return value
        if exception is not None:
            reason = f"Value must be between {bounds[1]} and {bounds[2]} or equal to {bounds[3]}"
        elif value < low:
            reason = f"Value must be at least {bounds[1]}"
        else:
            reason = f"Value must be no more than {bounds[2]}"
        raise InvalidValue.because(name, value, reason)

    return check


def _choice_check(choices: re.Match[str]) -> Check:
    ignore_case, texts = bool(choices[1]), choices[2].split(", ")
    allowed = {text.upper() for text in texts} if ignore_case else set(texts)
    reason = f"String must be one of{' (case insensitive)' if ignore_case else ''}: {', '.join(texts)}"

    def check(name: str, value: ConfigValue) -> ConfigValue:
        assert isinstance(value, str)
        if (value.upper() if ignore_case else value) not in allowed:
            raise InvalidValue.because(name, value, reason)
        return value

    return check


def _list_check(match: re.Match[str]) -> Check:
    """Duplicate entries are dropped without an error, as in Kafka."""
    is_required, choices = bool(match[1]), match[2].split(", ") if match[2] else None
    valid_values = f"[{', '.join(choices)}]" if choices else "any non-empty value"

    def check(name: str, value: ConfigValue) -> ConfigValue:
        assert isinstance(value, tuple)
        if not value and is_required:
            raise InvalidValue(f"Configuration '{name}' must not be empty. Valid values include: {valid_values}")
        for text in value:
            if not text:
                raise InvalidValue(f"Configuration '{name}' values must not be empty.")
            if choices is not None and text not in choices:
                raise InvalidValue.because(name, text, f"String must be one of: {', '.join(choices)}")
        return tuple(dict.fromkeys(value))

    return check


def _throttled_replicas(name: str, value: ConfigValue) -> ConfigValue:
    assert isinstance(value, tuple)
    if "".join(value).strip() != "*" and not all(_THROTTLED_REPLICA.fullmatch(text.strip()) for text in value):
        raise InvalidValue.because(
            name,
            value,
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    return value
