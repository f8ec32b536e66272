"""How a record's fields are written down: kio's field metadata, plus the version from which a field exists.

Record classes are the union of all versions of a record. What a version lacks is left out when writing and
takes its default when reading, so that nobody but the codec ever thinks about versions.
"""

from collections.abc import Mapping
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16


def form(kafka_type: str, *, since: int = 0, tag: int | None = None) -> Mapping[str, object]:
    """Field metadata of a primitive, or of an array of primitives."""
    metadata: dict[str, object] = {"kafka_type": kafka_type, "since": since}
    if tag is not None:
        metadata["tag"] = tag
    return metadata


class NestedForm:
    """Base of structures inside a record. The record's version is theirs; none of them has changed so far."""

    __slots__ = ()
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


class MetadataRecord:
    """Base of every record of the metadata log."""

    __slots__ = ()
    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    API_KEY: ClassVar[int]
    """The number that says in the log which record follows."""
    HIGHEST_VERSION: ClassVar[int] = 0
