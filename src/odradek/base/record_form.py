"""Declares the records of the metadata log and of internal topics, and encodes them in every version.

A class is the union of all versions of its record. Fields have kio's metadata and the versions they exist in. Encoding
omits the fields that a version does not have, and decoding gives them their defaults, so that only the codecs know
about versions. The codecs also write and read the type and version that precede a record.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, ClassVar, Final, TypeVar, get_args, get_origin

from kio.serial.errors import OutOfBoundValue, SerialError
from kio.static.constants import EntityType
from kio.static.primitive import i16

from odradek.base.message_walk import ANY_NUMBER, checked_reader
from odradek.base.message_writer import Writer, message_writer

_NEVER: Final = 32_767


class UnreadableRecord(ValueError):
    """The bytes are not a record, or one of a later release."""


class UnwritableRecord(ValueError):
    """A value is too large for its field."""


class RecordForm:
    """Base of records. The class itself encodes the flexible versions that have all of its fields."""

    __slots__ = ()
    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0


class NestedForm:
    """Base of structures inside a record; they share its version and its encoding."""

    __slots__ = ()
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


R = TypeVar("R", bound=RecordForm)


def form(
    kafka_type: str | None = None, *, since: int = 0, until: int = _NEVER, tag: int | None = None
) -> Mapping[str, object]:
    """Metadata of a primitive field or array of primitives, which the versions `since` to `until` have.

    Structures have no `kafka_type`, and need metadata only if they are tagged or do not exist in every version.
    """
    metadata: dict[str, object] = {"since": since, "until": until}
    if kafka_type is not None:
        metadata["kafka_type"] = kafka_type
    if tag is not None:
        metadata["tag"] = tag
    return metadata


def write_record(out: bytearray, record: RecordForm, version: int) -> None:
    """Raises UnwritableRecord."""
    try:
        _writer(type(record), version)(out, record)
    except OutOfBoundValue as error:
        raise UnwritableRecord(f"{type(record).__name__} cannot be written: {error}") from error


def read_record(record_type: type[R], version: int, data: bytes, offset: int) -> R:
    """Decodes a record of this version. Raises UnreadableRecord.

    As in Kafka, tagged fields that this release does not know are skipped: a later release may have added them.
    """
    try:
        record: R = _reader(record_type, version)(data, offset)
        return record
    except SerialError as error:
        raise UnreadableRecord(f"{record_type.__name__} of {len(data)} bytes cannot be read: {error}") from error


def _new_writer(record_type: Any, version: int) -> Writer:
    # Fields are read by name: a record of the newest class has the fields of every version.
    return message_writer(_class_of_version(record_type, version, version >= record_type.FLEXIBLE_SINCE))


def _new_reader(record_type: Any, version: int) -> Callable[[bytes, int], Any]:
    flexible = version >= record_type.FLEXIBLE_SINCE
    versioned = _class_of_version(record_type, version, flexible)
    # Configs may have more bytes than characters, so that only the record itself bounds its strings.
    read = checked_reader(versioned, string_bytes_max=ANY_NUMBER)
    if versioned is record_type:
        return read
    rebuild = _rebuilder(record_type, version, flexible)
    return lambda data, offset: rebuild(read(data, offset))


_writer: Final[Callable[[Any, int], Writer]] = cache(_new_writer)
_reader: Final[Callable[[Any, int], Callable[[bytes, int], Any]]] = cache(_new_reader)


# ---- classes of one version


@cache
def _class_of_version(shape: Any, version: int, flexible: bool) -> Any:
    """The class with only the fields of `version`, from which kio derives its codec."""
    known_here = _fields_of(shape, version)
    hints = [_hint_of_version(known.type, version, flexible) for known in known_here]
    if flexible and hints == [known.type for known in fields(shape)]:
        return shape
    return make_dataclass(
        f"{shape.__name__}V{version}",
        [(known.name, hint, _copy_of(known)) for known, hint in zip(known_here, hints, strict=True)],
        frozen=True,
        slots=True,
        kw_only=True,
        namespace={"__type__": shape.__type__, "__version__": i16(version), "__flexible__": flexible},
    )


def _hint_of_version(hint: Any, version: int, flexible: bool) -> Any:
    shape = _nested_shape(hint)
    if shape is None:
        return hint
    versioned = _class_of_version(shape, version, flexible)
    here: Any = GenericAlias(tuple, (versioned, ...)) if _holds_many(hint) else versioned
    return here | None if isinstance(hint, UnionType) else here


def _nested_shape(hint: Any) -> Any:
    """The structure in a field or array, or None."""
    held = get_args(_without_none(hint))[0] if _holds_many(hint) else _without_none(hint)
    return held if is_dataclass(held) else None


def _holds_many(hint: Any) -> bool:
    return get_origin(_without_none(hint)) is tuple


def _without_none(hint: Any) -> Any:
    if not isinstance(hint, UnionType):
        return hint
    return next(option for option in get_args(hint) if option is not NoneType)


def _fields_of(shape: Any, version: int) -> list[Field[Any]]:
    return [
        known
        for known in fields(shape)
        if known.metadata.get("since", 0) <= version <= known.metadata.get("until", _NEVER)
    ]


def _copy_of(known: Field[Any]) -> Any:
    if known.default is MISSING:
        return field(metadata=known.metadata)
    return field(default=known.default, metadata=known.metadata)


# ---- from the class of one version to the declared class


@cache
def _rebuilder(shape: Any, version: int, flexible: bool) -> Callable[[Any], Any]:
    plain: list[str] = []
    structures: list[tuple[str, Callable[[Any], Any], bool]] = []
    for known in _fields_of(shape, version):
        inner = _nested_shape(known.type)
        if inner is None or _class_of_version(inner, version, flexible) is inner:
            plain.append(known.name)
        else:
            structures.append((known.name, _rebuilder(inner, version, flexible), _holds_many(known.type)))

    def rebuild(read: Any) -> Any:
        values = {name: getattr(read, name) for name in plain}
        for name, rebuild_one, many in structures:
            held = getattr(read, name)
            if held is None:
                values[name] = None
            else:
                values[name] = tuple(map(rebuild_one, held)) if many else rebuild_one(held)
        return shape(**values)

    return rebuild
