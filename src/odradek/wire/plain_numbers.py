"""kio's messages with timestamps and durations as plain milliseconds.

kio reads them as datetimes and timedeltas, which cannot represent all 64-bit numbers that Kafka sends, such as -1.
"""

from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from types import ModuleType
from typing import Any, Final

_TIMES: Final = ("datetime_i64", "timedelta_i64")
_CONSTANTS: Final = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")


def with_plain_numbers(module: ModuleType) -> ModuleType:
    """A copy of a kio module whose structures have integers. Their names stay the same."""
    copy = ModuleType(module.__name__, module.__doc__)
    for name, value in vars(module).items():
        is_structure = isinstance(value, type) and is_dataclass(value) and value.__module__ == module.__name__
        setattr(copy, name, _with_plain_numbers(value) if is_structure else value)
    return copy


def _with_plain_numbers(structure: Any) -> Any:
    if not any(_is_time(one) for one in fields(structure)):
        return structure
    return make_dataclass(
        structure.__name__,
        [(one.name, int if _is_time(one) else one.type, _field_of(one)) for one in fields(structure)],
        frozen=True,
        slots=True,
        kw_only=True,
        namespace={name: getattr(structure, name) for name in _CONSTANTS if hasattr(structure, name)},
    )


def _is_time(one: Field[Any]) -> bool:
    return one.metadata.get("kafka_type") in _TIMES


def _field_of(one: Field[Any]) -> Any:
    metadata = {**one.metadata, "kafka_type": "int64"} if _is_time(one) else one.metadata
    if one.default is MISSING:
        return field(metadata=metadata)
    assert not _is_time(one), "a default would be a datetime or a timedelta"
    return field(default=one.default, metadata=metadata)
