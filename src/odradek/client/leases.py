"""Leases on closed segments, as a reader asks for them at the HTTP address of the partition's leader.

Nobody needs one: whatever goes wrong is NoLease, and then the brokers are asked for the records themselves.
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
from odradek.client.node_http import NoEndpoint, ask_endpoint, find_endpoint

_log = logging.getLogger(__name__)

PATH: Final = "/v1/leases"
DURATION_MS: Final = 600_000
_GRANT_S: Final = 30.0
_RENEW_S: Final = 1.0


class NoLease(Exception):
    """The message says why."""


@dataclass(frozen=True, slots=True, repr=False)
class LeaseCredentials:
    principal: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"{self.principal}:{self.secret}".encode()).decode()}


class HeldFile(NamedTuple):
    """The second name of a closed segment's file; its offsets are from `base_offset` on and below `limit`."""

    path: str
    base_offset: int
    limit: int
    size: int


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSegments:
    """What one lease lets somebody read. Travels to tasks."""

    partition: TopicPartition
    lease_id: str
    node_id: int
    cluster_id: str | None
    endpoint: Address
    duration_ms: int
    renew_at_s: float
    """By the clock of who asked: from then on it is time to renew it."""
    leader_epoch: int
    log_start_offset: int
    files: tuple[HeldFile, ...]
    aborted: tuple[Aborted, ...]

    @property
    def edges(self) -> list[int]:
        """Offsets at which a file begins or ends."""
        return [*(one.base_offset for one in self.files), self.files[-1].limit]

    def part(self, start: int, end: int) -> "HeldSegments | None":
        """What is needed of it for these offsets."""
        files = tuple(one for one in self.files if one.base_offset < end and one.limit > start)
        if not files:
            return None
        aborted = tuple(one for one in self.aborted if one.first_offset < end and one.last_offset >= start)
        return replace(self, files=files, aborted=aborted)


class LeaseDesk:
    """Asks for leases, as one principal."""

    def __init__(self, cluster: Cluster, credentials: LeaseCredentials, *, duration_ms: int = DURATION_MS) -> None:
        self._cluster: Final = cluster
        self._credentials: Final = credentials
        self._duration_ms: Final = duration_ms
        self._endpoints: Final[dict[int, Address]] = {}
        # Leaders that do not grant any on a topic are not asked for each of its partitions.
        self._refusals: Final[dict[tuple[int, str], str]] = {}

    def ask(
        self,
        partition: TopicPartition,
        *,
        start: int,
        end: int,
        read_committed: bool,
        topic_id: str = "",
    ) -> HeldSegments | None:
        """None: no closed segment lies there. `topic_id`: of no other topic of this name. Raises NoLease."""
        wanted = {
            "topic": partition.topic,
            "partition": partition.partition,
            "topic_id": topic_id,
            "start": start,
            "end": end,
            "isolation": "read_committed" if read_committed else "read_uncommitted",
            "duration_ms": self._duration_ms,
        }
        try:
            return self._ask_leaders(partition, wanted)
        except NoEndpoint as error:
            raise NoLease(f"{partition}: {error}") from error
        except (KafkaError, ClientError) as error:
            raise NoLease(f"{partition}: {error}") from error
        except (LookupError, TypeError, ValueError) as error:
            raise NoLease(f"{partition}: its leader answers with what is no lease: {error!r}") from error

    def _ask_leaders(self, partition: TopicPartition, wanted: Mapping[str, Any]) -> HeldSegments | None:
        """The leader, and the next one if leadership has just moved. Raises NoEndpoint."""
        refused: NoEndpoint | None = None
        asked: set[int] = set()
        while True:
            layout = self._cluster.layout([partition.topic])
            leader = layout.topics[partition.topic].partitions[partition.partition].leader
            if refused is not None and leader in asked:
                raise refused
            if known := self._refusals.get((leader, partition.topic)):
                raise NoEndpoint(known)
            asked.add(leader)
            try:
                return self._ask_leader(layout.cluster_id, leader, partition, wanted)
            except NoEndpoint as error:
                if error.status != HTTPStatus.CONFLICT:
                    self._refusals[leader, partition.topic] = str(error)
                    raise
                # This is about the one partition: it may well grant leases on others.
                refused = error

    def _ask_leader(
        self, cluster_id: str | None, leader: int, partition: TopicPartition, wanted: Mapping[str, Any]
    ) -> HeldSegments | None:
        endpoint = self._endpoint(leader)
        answer = ask_endpoint(
            endpoint,
            f"{PATH}?{urlencode(wanted)}",
            cluster_id,
            leader,
            timeout_s=_GRANT_S,
            method="POST",
            headers=self._credentials.headers,
        )
        files = _files(answer["segments"])
        if not files:
            return None
        return HeldSegments(
            partition=partition,
            lease_id=str(answer["lease"]),
            node_id=leader,
            cluster_id=cluster_id,
            endpoint=endpoint,
            duration_ms=self._duration_ms,
            renew_at_s=time.time() + self._duration_ms / 3000,
            leader_epoch=int(answer["leader_epoch"]),
            log_start_offset=int(answer["log_start_offset"]),
            files=files,
            aborted=tuple(Aborted(*map(int, one)) for one in answer["aborted"]),
        )

    def _endpoint(self, leader: int) -> Address:
        if leader not in self._endpoints:
            self._endpoints[leader] = find_endpoint(self._cluster, leader, self._cluster.address_of(leader).host)
        return self._endpoints[leader]


class LeaseKeeper:
    """Renews leases when it is time to, and gives them back. A failure is told, and harms nobody but the reader."""

    def __init__(self, credentials: LeaseCredentials) -> None:
        self._credentials: Final = credentials
        self._renew_at_s: Final[dict[str, float]] = {}

    def keep(self, held: HeldSegments) -> None:
        """To be called again and again while it is read."""
        now_s = time.time()
        if now_s < self._renew_at_s.get(held.lease_id, held.renew_at_s):
            return
        self._renew_at_s[held.lease_id] = now_s + held.duration_ms / 3000
        self._tell(held, "POST", f"?duration_ms={held.duration_ms}")

    def release(self, leases: Sequence[HeldSegments]) -> None:
        for held in leases:
            self._tell(held, "DELETE", "")

    def _tell(self, held: HeldSegments, method: str, query: str) -> None:
        try:
            ask_endpoint(
                held.endpoint,
                f"{PATH}/{held.lease_id}{query}",
                held.cluster_id,
                held.node_id,
                timeout_s=_RENEW_S,
                method=method,
                headers=self._credentials.headers,
            )
        except NoEndpoint as error:
            _log.info("the lease on %s is left to end by itself: %s", held.partition, error)


def _files(found: Any) -> tuple[HeldFile, ...]:
    files = tuple(
        HeldFile(str(one["file"]), int(one["base_offset"]), int(one["limit"]), int(one["size"])) for one in found
    )
    if any(one.limit != following.base_offset for one, following in pairwise(files)):
        raise ValueError("its segments do not follow one another")
    return files
