"""The reserved values among directory ids: what is known of a replica's directory before or after a real one."""

from typing import Final
from uuid import UUID

UNASSIGNED: Final = None
"""The broker has not yet said in which of its directories the replica lives (kio reads the zero uuid as None)."""
LOST: Final = UUID(int=1)
"""The replica lived in a directory that the broker no longer has."""
MIGRATING: Final = UUID(int=2)
"""The partition was created before directories were recorded."""

RESERVED_MAX: Final = 100
"""Kafka keeps the uuids below this number for itself: no real directory has one."""
