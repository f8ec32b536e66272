"""How records of the internal topics are written down, and their codecs for every version.

A class is the union of all versions of its record. Fields carry kio's metadata, plus the versions they exist in; what
a version lacks is left out when writing and takes its default when reading. Unlike the records of the metadata log,
these have versions older than Kafka's flexible encoding.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, ClassVar, Final, get_args, get_origin

from kio.serial import entity_reader
from kio.static.constants import EntityType
from kio.static.primitive import i16

from odradek.base.message_writer import Writer, message_writer

_NEVER: Final = 32_767


class RecordForm:
    """Base of keys and values. `__flexible__` and `__version__` are set per version, by the codec."""

    __slots__ = ()

    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0


class NestedForm:
    """Base of structures inside a record; they share its version and its encoding."""

    __slots__ = ()


def form(kafka_type: str, *, since: int = 0, until: int = _NEVER, tag: int | None = None) -> Mapping[str, object]:
    """Field metadata of a primitive or an array of them, which the versions from `since` to `until` have."""
    metadata: dict[str, object] = {"kafka_type": kafka_type, **nested(since=since, until=until)}
    if tag is not None:
        metadata["tag"] = tag
    return metadata


def nested(*, since: int = 0, until: int = _NEVER, tag: int | None = None) -> Mapping[str, object]:
    """Field metadata of a structure or an array of them."""
    metadata: dict[str, object] = {"since": since, "until": until}
    if tag is not None:
        metadata["tag"] = tag
    return metadata


def _writer(record_type: Any, version: int) -> Writer:
    # Fields are taken by name: a record of the newest shape serves every version's list of fields.
    return message_writer(_versioned(record_type, version, version >= record_type.FLEXIBLE_SINCE))


def _reader(record_type: Any, version: int) -> Callable[[bytes, int], Any]:
    read = entity_reader(_versioned(record_type, version, version >= record_type.FLEXIBLE_SINCE))
    rebuild = _rebuilder(record_type, version)
    return lambda data, offset: rebuild(read(data, offset)[0])


writer: Final[Callable[[Any, int], Writer]] = cache(_writer)
"""What appends a record of this class in this version."""
reader: Final[Callable[[Any, int], Callable[[bytes, int], Any]]] = cache(_reader)
"""What makes a record of this class from bytes of this version, from a position on."""


# ---- one version's classes


@cache
def _versioned(shape: Any, version: int, flexible: bool) -> Any:
    """The class with only those fields that `version` has, for kio to derive its codec from."""
    is_nested = issubclass(shape, NestedForm)
    return make_dataclass(
        f"{shape.__name__}V{version}",
        [
            (known.name, _versioned_hint(known.type, version, flexible), _copy_of(known))
            for known in _fields_of(shape, version)
        ],
        frozen=True,
        slots=True,
        kw_only=True,
        namespace={
            "__type__": EntityType.nested if is_nested else EntityType.data,
            "__version__": i16(version),
            "__flexible__": flexible,
        },
    )


def _versioned_hint(hint: Any, version: int, flexible: bool) -> Any:
    shape = _nested_shape(hint)
    if shape is None:
        return hint
    versioned = _versioned(shape, version, flexible)
    if get_origin(hint) is tuple:
        return GenericAlias(tuple, (versioned, ...))
    return versioned | None if isinstance(hint, UnionType) else versioned


def _nested_shape(hint: Any) -> Any:
    """The structure that a field holds, alone or many of them, or None."""
    candidates = [option for option in (get_args(hint) or (hint,)) if option not in (NoneType, Ellipsis)]
    return next((candidate for candidate in candidates if is_dataclass(candidate)), None)


def _fields_of(shape: Any, version: int) -> list[Field[Any]]:
    return [known for known in fields(shape) if known.metadata["since"] <= version <= known.metadata["until"]]


def _copy_of(known: Field[Any]) -> Any:
    if known.default is MISSING:
        return field(metadata=known.metadata)
    return field(default=known.default, metadata=known.metadata)


# ---- from one version's classes back to ours


@cache
def _rebuilder(shape: Any, version: int) -> Callable[[Any], Any]:
    plain: list[str] = []
    structures: list[tuple[str, Callable[[Any], Any], bool]] = []
    for known in _fields_of(shape, version):
        inner = _nested_shape(known.type)
        if inner is None:
            plain.append(known.name)
        else:
            structures.append((known.name, _rebuilder(inner, version), get_origin(known.type) is tuple))

    def rebuild(read: Any) -> Any:
        values = {name: getattr(read, name) for name in plain}
        for name, rebuild_one, many in structures:
            held = getattr(read, name)
            if many:
                values[name] = tuple(map(rebuild_one, held))
            else:
                values[name] = None if held is None else rebuild_one(held)
        return shape(**values)

    return rebuild
