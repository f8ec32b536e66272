"""The ranges that configs are held to, read from the short notation of `kafka_configs.json`.

- numbers: `[1,...]`, `[0,...,1]`, `[1,...,9] or -1`
- one of these texts: `[a, b, c]`, `(case insensitive) [a, b]`
- lists: `distinct`, `distinct non-empty`, `distinct of [a, b]`
- texts: `non-empty string`, `non-null string`
"""

import re
from collections.abc import Callable
from functools import cache

from odradek.config.values import ConfigValue

Check = Callable[[ConfigValue], str | None]
"""Says why a value is refused, in Kafka's words, or None. None as a value means that nothing was given."""

_BOUNDS = re.compile(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?")
_CHOICES = re.compile(r"(\(case insensitive\) )?\[(\w[^\]]*)\]")
_DISTINCT = re.compile(r"distinct( non-empty)?(?: of \[([^\]]*)\])?")
_THROTTLED_REPLICAS = re.compile(r"\*|(\d+:\d+)(,\d+:\d+)*|")


@cache
def check_for(notation: str) -> Check:
    if notation.startswith("distinct"):
        return _list_check(notation)
    if bounds := _BOUNDS.fullmatch(notation):
        return _number_check(bounds)
    if notation == "non-empty string":
        return lambda value: "String must be non-empty" if value == "" else None
    if notation.startswith("[partitionId]"):
        return _throttled_replicas
    if choices := _CHOICES.fullmatch(notation):
        return _choice_check(choices)
    return _anything


def _anything(value: ConfigValue) -> str | None:
    return None


def _number_check(bounds: re.Match[str]) -> Check:
    low, high = float(bounds[1]), float(bounds[2]) if bounds[2] else None
    exception = float(bounds[3]) if bounds[3] else None

    def check(value: ConfigValue) -> str | None:
        if value is None:
            return "Value must be non-null"
        assert isinstance(value, int | float)
        if value == exception:
            return None
        if exception is not None and not low <= value <= (high or value):
            return f"Value must be between {bounds[1]} and {bounds[2]} or equal to {bounds[3]}"
        if value < low:
            return f"Value must be at least {bounds[1]}"
        if high is not None and value > high:
            return f"Value must be no more than {bounds[2]}"
        return None

    return check


def _choice_check(choices: re.Match[str]) -> Check:
    ignore_case, texts = bool(choices[1]), choices[2].split(", ")
    allowed = {text.upper() if ignore_case else text for text in texts}
    kind = "(case insensitive): " if ignore_case else "of: "

    def check(value: ConfigValue) -> str | None:
        if isinstance(value, str) and (value.upper() if ignore_case else value) in allowed:
            return None
        return f"String must be one {kind}{', '.join(texts)}"

    return check


def _list_check(notation: str) -> Check:
    match = _DISTINCT.fullmatch(notation)
    assert match, notation
    must_have_some, choices = bool(match[1]), match[2].split(", ") if match[2] else None

    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, tuple)
        if not value and must_have_some:
            return f"Configuration must not be empty. Valid values include: {_brackets(choices or ())}"
        for text in value:
            if not text:
                return "Configuration values must not be empty."
            if choices is not None and text not in choices:
                return f"String must be one of: {', '.join(choices)}"
        if len(set(value)) != len(value):
            return "Configuration values must not be duplicated."
        return None

    return check


def _throttled_replicas(value: ConfigValue) -> str | None:
    assert isinstance(value, tuple)
    if _THROTTLED_REPLICAS.fullmatch(",".join(value)):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _brackets(texts: tuple[str, ...] | list[str]) -> str:
    return f"[{', '.join(texts)}]"
