"""Decodes the assignment of a member of a classic group, which is opaque to the broker.

The leader of a group may write any format, so an undecodable assignment is not an error.
"""

import struct
from importlib import import_module
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.base.message_walk import checked_reader
from odradek.wire.schemas import RESPONSE_ELEMENTS_MAX, SerialError

CONSUMER_PROTOCOL: Final = "consumer"

_VERSION: Final = struct.Struct(">h")
_VERSION_MAX: Final = 3


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Return the partitions, sorted by name, or None if the format is unknown."""
    if not data:
        return ()
    if len(data) < _VERSION.size:
        return None
    version = _VERSION.unpack_from(data)[0]
    if version < 0:
        return None
    # Later versions only append fields.
    form = import_module(f"kio.schema.consumer_protocol_assignment.v{min(version, _VERSION_MAX)}.data")
    try:
        assignment = checked_reader(form.ConsumerProtocolAssignment, RESPONSE_ELEMENTS_MAX)(data, _VERSION.size)
    except SerialError:
        return None
    return tuple(
        sorted(TopicPartition(one.topic, number) for one in assignment.assigned_partitions for number in one.partitions)
    )
