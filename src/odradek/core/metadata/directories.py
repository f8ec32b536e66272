"""The reserved directory IDs."""

from typing import Final
from uuid import UUID

UNASSIGNED: Final = None
"""The broker has not reported the replica's directory yet (kio reads the zero UUID as None)."""
LOST: Final = UUID(int=1)
"""The replica's directory is offline or removed."""
MIGRATING: Final = UUID(int=2)
"""The partition was created before directories were recorded."""

RESERVED_MAX: Final = 100
"""Kafka reserves the UUIDs below this number."""
