"""Leases on closed segments, over HTTP: creates hard links to their files, and removes them when a lease ends.

`storage/log/leases.py` has the rules; this module adds the clock, the disk and the principals. See
`docs/decisions/0030-leases-on-closed-segments.md`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable
from typing import Any, Final

from odradek.base.ids import NO_EPOCH, TopicPartition, uuid_to_text
from odradek.base.ports import Disk
from odradek.broker.broker import Broker
from odradek.core.security.resources import Operation, ResourceType
from odradek.observe.endpoint import Call, HttpEndpoint, Reply
from odradek.observe.http_access import HttpClient, HttpDenied
from odradek.server.periodic import Periodic
from odradek.storage.log.leases import (
    DURATION_MS_MAX,
    HeldSegment,
    Lease,
    LeaseRefused,
    Leases,
    is_link,
    leasable,
    link_path,
    until,
)
from odradek.storage.log.transaction_index import AbortedTransaction
from odradek.storage.partition.partition import Partition

logger = logging.getLogger(__name__)

NAME: Final = "leases"
EXPIRY_INTERVAL_MS: Final = 1_000
ABORTED_MAX: Final = 200_000
_ID_BYTES: Final = 12


class _Refusal(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status: Final = status


class SegmentLeases:
    def __init__(self, broker: Broker, disk: Disk) -> None:
        self._broker: Final = broker
        self._disk: Final = disk
        self._leases: Final = Leases()

    async def start(self, endpoint: HttpEndpoint, periodic: Periodic) -> None:
        await self._broker.executor.run(self._remove_stale_links)
        endpoint.serve(NAME, self._respond)
        periodic.every("lease expiry", lambda: EXPIRY_INTERVAL_MS, self._expire)

    async def stop(self) -> None:
        await self._remove(self._leases.end_all())

    # ---- requests

    async def _respond(self, call: Call) -> Reply:
        """Raises HttpDenied."""
        client = call.client
        principal = str(client.principal)
        try:
            if call.method == "GET" and not call.below:
                client.check_cluster(Operation.DESCRIBE)
                return Reply(200, self._reply_body({"leases": [self._describe(one) for one in self._leases]}))
            if call.method == "POST" and not call.below:
                # Shielded: links that were created must belong to a lease, even if the client disconnects.
                granted = await asyncio.shield(asyncio.ensure_future(self._grant(call, client)))
                return Reply(200, self._reply_body(granted))
            if call.method == "POST":
                duration_ms = _number(call, "duration_ms", DURATION_MS_MAX)
                lease = self._leases.renew(call.below, principal, duration_ms, self._now_ms())
                return Reply(200, self._reply_body({"expires_in_ms": lease.expires_ms - self._now_ms()}))
            if call.method == "DELETE" and call.below:
                # Shielded: no other code removes the links of an ended lease.
                ended = self._leases.release(call.below, principal)
                await asyncio.shield(asyncio.ensure_future(self._remove([ended])))
                return Reply(200, self._reply_body({}))
        except _Refusal as refusal:
            return Reply(refusal.status, {"error": str(refusal)})
        except LeaseRefused as refused:
            return Reply(404 if call.below else 429, {"error": str(refused)})
        return Reply(405, {"error": "use GET to list leases, POST to acquire or renew one, DELETE to release one"})

    # ---- granting

    async def _grant(self, call: Call, client: HttpClient) -> dict[str, Any]:
        topic = call.query.get("topic", "")
        if not client.access.is_restricted and not client.is_local:
            # A lease keeps disk space in use: a client that no ACL concerns must at least be on this computer.
            raise HttpDenied(403, "without authorizer.class.name, leases are for clients on the broker's computer")
        client.check(Operation.READ, ResourceType.TOPIC, topic)
        partition = self._partition(topic, _number(call, "partition"), call.query.get("topic_id"))
        committed_only = call.query.get("isolation") != "read_uncommitted"
        start, end = _number(call, "start", 0), _number(call, "end", 2**63 - 1)
        duration_ms = _number(call, "duration_ms", DURATION_MS_MAX)
        # Everything below it stays committed, whatever happens next.
        bound, epoch = partition.readable_end(committed_only=committed_only), partition.leader_epoch
        lease_id = self._broker.random.randbytes(_ID_BYTES).hex()
        self._leases.check_room(1)
        try:
            log_dir, segments, aborted = await partition.run_exclusively(
                lambda: self._link(partition, lease_id, bound, start, end)
            )
        except OSError as error:
            raise _Refusal(503, f"{partition.log_dir}: cannot create a hard link: {error.strerror}") from None
        now_ms = self._now_ms()
        lease = Lease(
            id=lease_id,
            principal=str(client.principal),
            partition=partition.name,
            log_dir=log_dir,
            segments=segments,
            granted_ms=now_ms,
            expires_ms=until(duration_ms, now_ms, now_ms),
        )
        try:
            self._check_unchanged(partition, epoch, aborted if committed_only else [])
            if segments:
                self._leases.grant(lease)
        except (_Refusal, LeaseRefused):
            await self._remove([lease])
            raise
        return {
            "lease": lease.id,
            "expires_in_ms": lease.expires_ms - now_ms,
            "topic_id": uuid_to_text(partition.topic_id),
            "leader_epoch": epoch,
            "log_start_offset": partition.log.log_start_offset,
            "segments": [
                {"file": os.path.abspath(path), **one._asdict()}
                for path, one in zip(lease.link_paths(), segments, strict=True)
            ],
            "aborted": [one[:3] for one in aborted] if committed_only else [],
        }

    def _partition(self, topic: str, number: int, topic_id: str | None) -> Partition:
        partition = self._broker.partition(topic, number)
        if partition is None or partition.unavailable is not None or not partition.is_leader:
            raise _Refusal(409, f"node {self._broker.node_id} is not the leader of {TopicPartition(topic, number)}")
        if topic_id and topic_id != uuid_to_text(partition.topic_id):
            raise _Refusal(409, f"topic {topic!r} was deleted and recreated")
        return partition

    def _check_unchanged(self, partition: Partition, epoch: int, aborted: list[AbortedTransaction]) -> None:
        if partition.unavailable is not None or partition.leader_epoch != epoch or epoch == NO_EPOCH:
            raise _Refusal(409, f"the leader of {partition.name} has changed: retry")
        if len(aborted) > ABORTED_MAX:
            raise _Refusal(409, f"{partition.name} has too many aborted transactions in this range ({len(aborted)})")

    def _link(
        self, partition: Partition, lease_id: str, bound: int, start: int, end: int
    ) -> tuple[str, tuple[HeldSegment, ...], list[AbortedTransaction]]:
        """Runs exclusively, so that no segment is swapped, truncated or deleted. Creates all links or none."""
        log, log_dir = partition.log, partition.log_dir
        if partition.unavailable is not None:
            return log_dir, (), []
        chosen = leasable(log.segments, bound, start=max(start, log.log_start_offset), end=end)
        made: list[str] = []
        try:
            for segment, _ in chosen:
                path = link_path(log_dir, lease_id, segment.base_offset)
                self._disk.link(segment.log.path, path)
                made.append(path)
            held = tuple(one for _, one in chosen)
            aborted = log.aborted_transactions(held[0].base_offset, held[-1].limit) if held else []
        except BaseException:
            self._unlink(made)
            raise
        return log_dir, held, aborted

    # ---- ending

    async def _expire(self) -> None:
        await self._remove(self._leases.expire(self._now_ms()))

    async def _remove(self, leases: Iterable[Lease]) -> None:
        paths = [path for lease in leases for path in lease.link_paths()]
        if paths:
            await self._broker.executor.run(lambda: self._unlink(paths))

    def _unlink(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                with contextlib.suppress(FileNotFoundError):
                    self._disk.remove(path)
            except OSError as error:
                # The next start retries; appends detect a failed disk.
                logger.warning("Cannot remove lease link %s: %s", path, error)

    def _remove_stale_links(self) -> None:
        """Removes the links of a process that was killed."""
        for directory in self._broker.log_dirs.online:
            with contextlib.suppress(OSError):
                self._unlink([f"{directory}/{name}" for name in self._disk.list_dir(directory) if is_link(name)])

    # ---- replies

    def _reply_body(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"node": self._broker.node_id, "cluster": self._broker.cluster_id, **fields}

    def _describe(self, lease: Lease) -> dict[str, Any]:
        return {
            "principal": lease.principal,
            "topic": lease.partition.topic,
            "partition": lease.partition.partition,
            "segments": len(lease.segments),
            "bytes": sum(one.size for one in lease.segments),
            "expires_in_ms": max(lease.expires_ms - self._now_ms(), 0),
        }

    def _now_ms(self) -> int:
        return int(self._broker.clock.monotonic() * 1000)


def _number(call: Call, name: str, default: int | None = None) -> int:
    text = call.query.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        raise _Refusal(400, f"{name}: not a whole number")
    return int(text)
