"""Leases on closed segments: which clients may read which segment files directly, and for how long. No I/O.

A lease stands for hard links to the segment files. The caller creates and removes these links. Times are milliseconds
of a monotonic clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from odradek.base.ids import TopicPartition
from odradek.storage.log import names
from odradek.storage.log.segment import Segment

DURATION_MS_MAX: Final = 600_000
LIFETIME_MS_MAX: Final = 4 * 3_600_000
LEASES_MAX: Final = 1_000
FILES_MAX: Final = 20_000
FILES_PER_LEASE_MAX: Final = 2_000
LINK_PREFIX: Final = ".lease-"


class LeaseRefused(Exception):
    """The limit is reached, or the lease does not exist. The message is for the client."""


class HeldSegment(NamedTuple):
    """Contains the offsets from `base_offset` up to, but not including, `limit` in `size` bytes."""

    base_offset: int
    limit: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    id: str
    principal: str
    partition: TopicPartition
    log_dir: str
    segments: tuple[HeldSegment, ...]
    granted_ms: int
    expires_ms: int

    def link_paths(self) -> list[str]:
        return [link_path(self.log_dir, self.id, one.base_offset) for one in self.segments]


def link_path(log_dir: str, lease_id: str, base_offset: int) -> str:
    return f"{log_dir}/{LINK_PREFIX}{lease_id}-{names.offset_file(base_offset, names.LOG_SUFFIX)}"


def is_link(name: str) -> bool:
    """Whether the file name is a link that belongs to a lease."""
    return name.startswith(LINK_PREFIX)


def leasable(segments: Sequence[Segment], bound: int, *, start: int, end: int) -> list[tuple[Segment, HeldSegment]]:
    """The closed segments below the bound that overlap the offsets from `start` up to `end`, up to a limit.

    A segment that ends after the bound may still be truncated; one that ends before it is never truncated.
    """
    found = [
        (segment, HeldSegment(segment.base_offset, following.base_offset, segment.size))
        for segment, following in pairwise(segments)
        if following.base_offset <= bound and segment.base_offset < end and following.base_offset > start
    ]
    return found[:FILES_PER_LEASE_MAX]


class Leases:
    """The leases of one broker."""

    def __init__(self) -> None:
        self._held: Final[dict[str, Lease]] = {}
        self._file_count = 0

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._held.values())

    def check_room(self, file_count: int) -> None:
        """Raises LeaseRefused."""
        if len(self._held) >= LEASES_MAX or self._file_count + file_count > FILES_MAX:
            raise LeaseRefused(
                f"{len(self._held)} leases on {self._file_count} segments are active, the maximum is reached: "
                "stop readers, or wait until their leases expire"
            )

    def grant(self, lease: Lease) -> None:
        """The links exist already. Raises LeaseRefused: then the caller removes them."""
        self.check_room(len(lease.segments))
        assert lease.id not in self._held
        self._held[lease.id] = lease
        self._file_count += len(lease.segments)

    def renew(self, lease_id: str, principal: str, duration_ms: int, now_ms: int) -> Lease:
        """Raises LeaseRefused."""
        lease = self._of(lease_id, principal)
        expires_ms = until(duration_ms, now_ms, lease.granted_ms)
        if lease.expires_ms <= now_ms or expires_ms <= now_ms:
            raise LeaseRefused(f"lease {lease_id} has expired")
        renewed = replace(lease, expires_ms=max(lease.expires_ms, expires_ms))
        self._held[lease_id] = renewed
        return renewed

    def release(self, lease_id: str, principal: str) -> Lease:
        """Returns the lease whose links the caller has to remove. Raises LeaseRefused."""
        return self._end(self._of(lease_id, principal))

    def expire(self, now_ms: int) -> list[Lease]:
        """Returns the expired leases, whose links the caller has to remove."""
        return [self._end(lease) for lease in list(self._held.values()) if lease.expires_ms <= now_ms]

    def end_all(self) -> list[Lease]:
        return [self._end(lease) for lease in list(self._held.values())]

    def _of(self, lease_id: str, principal: str) -> Lease:
        lease = self._held.get(lease_id)
        if lease is None or lease.principal != principal:
            raise LeaseRefused(f"{principal} has no lease {lease_id}: it has expired, or was never granted")
        return lease

    def _end(self, lease: Lease) -> Lease:
        del self._held[lease.id]
        self._file_count -= len(lease.segments)
        return lease


def until(duration_ms: int, now_ms: int, granted_ms: int) -> int:
    """When a lease that is granted or renewed now expires."""
    return min(now_ms + min(duration_ms, DURATION_MS_MAX), granted_ms + LIFETIME_MS_MAX)
