"""Requests leases on closed segments at the HTTP endpoint of the partition's leader.

A lease is optional: on any failure (NoLease) the reader fetches the records from the brokers instead.
"""

import base64
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import pairwise
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.node_http import NoEndpoint, find_endpoint, query_endpoint

_log = logging.getLogger(__name__)

PATH: Final = "/v1/leases"
DURATION_MS: Final = 600_000
_GRANT_S: Final = 30.0
_RENEW_S: Final = 1.0


class NoLease(Exception):
    """No lease was granted. The message states the reason."""


@dataclass(frozen=True, slots=True, repr=False)
class LeaseCredentials:
    principal: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"{self.principal}:{self.secret}".encode()).decode()}


class LeasedFile(NamedTuple):
    """A hard link to the file of a closed segment with the offsets from `base_offset` to below `limit`."""

    path: str
    base_offset: int
    limit: int
    size: int


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease on closed segments. It is sent to the tasks that read them."""

    partition: TopicPartition
    lease_id: str
    node_id: int
    cluster_id: str | None
    endpoint: Address
    duration_ms: int
    renew_at_s: float
    """When the lease is due for renewal, by the clock of the client that requested it."""
    leader_epoch: int
    log_start_offset: int
    files: tuple[LeasedFile, ...]
    aborted: tuple[Aborted, ...]

    @property
    def edges(self) -> list[int]:
        """The offsets at which a file starts or ends."""
        return [*(one.base_offset for one in self.files), self.files[-1].limit]

    def part(self, start: int, end: int) -> "Lease | None":
        """Return the part of the lease that covers these offsets."""
        files = tuple(one for one in self.files if one.base_offset < end and one.limit > start)
        if not files:
            return None
        aborted = tuple(one for one in self.aborted if one.first_offset < end and one.last_offset >= start)
        return replace(self, files=files, aborted=aborted)


class LeaseClient:
    """Requests leases as one principal."""

    def __init__(self, cluster: Cluster, credentials: LeaseCredentials, *, duration_ms: int = DURATION_MS) -> None:
        self._cluster: Final = cluster
        self._credentials: Final = credentials
        self._duration_ms: Final = duration_ms
        self._endpoints: Final[dict[int, Address]] = {}
        # A leader that grants no leases on a topic is not queried again for each of its partitions.
        self._refusals: Final[dict[tuple[int, str], str]] = {}

    def request(
        self,
        partition: TopicPartition,
        *,
        start: int,
        end: int,
        read_committed: bool,
        topic_id: str = "",
    ) -> Lease | None:
        """Request a lease. Returns None if no closed segment has these offsets. Raises NoLease.

        `topic_id`, if given, excludes a recreated topic of the same name.
        """
        parameters = {
            "topic": partition.topic,
            "partition": partition.partition,
            "topic_id": topic_id,
            "start": start,
            "end": end,
            "isolation": "read_committed" if read_committed else "read_uncommitted",
            "duration_ms": self._duration_ms,
        }
        try:
            return self._request_from_leaders(partition, parameters)
        except NoEndpoint as error:
            raise NoLease(f"{partition}: {error}") from error
        except (KafkaError, ClientError) as error:
            raise NoLease(f"{partition}: {error}") from error
        except (LookupError, TypeError, ValueError) as error:
            raise NoLease(f"{partition}: invalid lease from its leader: {error!r}") from error

    def _request_from_leaders(self, partition: TopicPartition, parameters: Mapping[str, Any]) -> Lease | None:
        """Query the leader, and the next one if leadership has just moved. Raises NoEndpoint."""
        rejection: NoEndpoint | None = None
        tried: set[int] = set()
        while True:
            layout = self._cluster.layout([partition.topic])
            leader = layout.topics[partition.topic].partitions[partition.partition].leader
            if rejection is not None and leader in tried:
                raise rejection
            if known := self._refusals.get((leader, partition.topic)):
                raise NoEndpoint(known)
            tried.add(leader)
            try:
                return self._request_from_leader(layout.cluster_id, leader, partition, parameters)
            except NoEndpoint as error:
                if error.status != HTTPStatus.CONFLICT:
                    self._refusals[leader, partition.topic] = str(error)
                    raise
                # A conflict concerns this partition only: the leader may grant leases on others.
                rejection = error

    def _request_from_leader(
        self, cluster_id: str | None, leader: int, partition: TopicPartition, parameters: Mapping[str, Any]
    ) -> Lease | None:
        endpoint = self._endpoint(leader)
        response = query_endpoint(
            endpoint,
            f"{PATH}?{urlencode(parameters)}",
            cluster_id,
            leader,
            timeout_s=_GRANT_S,
            method="POST",
            headers=self._credentials.headers,
        )
        files = _parse_files(response["segments"])
        if not files:
            return None
        return Lease(
            partition=partition,
            lease_id=str(response["lease"]),
            node_id=leader,
            cluster_id=cluster_id,
            endpoint=endpoint,
            duration_ms=self._duration_ms,
            renew_at_s=time.time() + self._duration_ms / 3000,
            leader_epoch=int(response["leader_epoch"]),
            log_start_offset=int(response["log_start_offset"]),
            files=files,
            aborted=tuple(Aborted(*map(int, one)) for one in response["aborted"]),
        )

    def _endpoint(self, leader: int) -> Address:
        if leader not in self._endpoints:
            self._endpoints[leader] = find_endpoint(self._cluster, leader, self._cluster.address_of(leader).host)
        return self._endpoints[leader]


class LeaseRenewer:
    """Renews and releases leases. Failures are only logged: an expired lease affects only its reader."""

    def __init__(self, credentials: LeaseCredentials) -> None:
        self._credentials: Final = credentials
        self._renew_at_s: Final[dict[str, float]] = {}

    def renew_if_due(self, lease: Lease) -> None:
        """Call this repeatedly while the segments are being read."""
        now_s = time.time()
        if now_s < self._renew_at_s.get(lease.lease_id, lease.renew_at_s):
            return
        self._renew_at_s[lease.lease_id] = now_s + lease.duration_ms / 3000
        self._send(lease, "POST", f"?duration_ms={lease.duration_ms}")

    def release(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._send(lease, "DELETE", "")

    def _send(self, lease: Lease, method: str, query: str) -> None:
        try:
            query_endpoint(
                lease.endpoint,
                f"{PATH}/{lease.lease_id}{query}",
                lease.cluster_id,
                lease.node_id,
                timeout_s=_RENEW_S,
                method=method,
                headers=self._credentials.headers,
            )
        except NoEndpoint as error:
            _log.info("Lease on %s not updated, it will expire: %s", lease.partition, error)


def _parse_files(segments: Any) -> tuple[LeasedFile, ...]:
    files = tuple(
        LeasedFile(str(one["file"]), int(one["base_offset"]), int(one["limit"]), int(one["size"])) for one in segments
    )
    if any(one.limit != following.base_offset for one, following in pairwise(files)):
        raise ValueError("its segments are not contiguous")
    return files
