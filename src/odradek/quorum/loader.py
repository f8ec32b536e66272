"""Applies the committed metadata log to this node's image and publishes every change to subscribers.

Subscribers receive the changes in order, one at a time. Batches that this node's own active controller wrote are not
read back from the log: their images exist already, and are published once the batches are committed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from odradek.base.background import Fault
from odradek.base.errors import KafkaError
from odradek.base.ports import Clock, Executor
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.difference import difference
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.replay import Replay
from odradek.core.raft.snapshot_policy import SnapshotPolicy
from odradek.quorum.driver import LANE
from odradek.quorum.store import OffsetOutOfLog, QuorumStore, read_committed
from odradek.records.control import ControlMessage, KRaftVersion

logger = logging.getLogger(__name__)

Subscriber = Callable[[ClusterImage, ImageDelta], Awaitable[None]]
_READ_BYTES: Final = 1 << 20


class PendingChange(NamedTuple):
    """A batch that this node's controller wrote, and the image after it."""

    first_offset: int
    size_bytes: int
    image: ClusterImage
    delta: ImageDelta


class MetadataLoader:
    def __init__(
        self,
        store: QuorumStore,
        policy: SnapshotPolicy,
        *,
        clock: Clock,
        executor: Executor,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._store: Final = store
        self._policy: Final = policy
        self._clock: Final = clock
        self._executor: Final = executor
        self._on_failure: Final = on_failure
        self._replay = Replay(store.image)
        self._image = store.image
        self._committed_end = store.image.offset + 1
        self._pending_changes: Final[deque[PendingChange]] = deque()
        self._loaded: ClusterImage | None = None
        """A snapshot that will replace the image."""
        self._subscribers: Final[list[Subscriber]] = []
        self._joining: Final[deque[tuple[Subscriber, ClusterImage, asyncio.Future[None]]]] = deque()
        self._waiting: Final[list[tuple[int, int, asyncio.Future[None]]]] = []
        """A heap of awaited offsets; the second number keeps the order of calls."""
        self._waits = 0
        self._loading: asyncio.Task[None] | None = None
        self._has_failed = False
        self.on_snapshot_due: Callable[[], None] = lambda: None
        self.on_control: Callable[[Iterable[ControlMessage]], None] = lambda messages: None
        """Receives the control records of the log."""

    @property
    def image(self) -> ClusterImage:
        """The committed metadata that all subscribers have applied."""
        return self._image

    @property
    def committed_end(self) -> int:
        return self._committed_end

    @property
    def is_inside_transaction(self) -> bool:
        return self._replay.is_inside_transaction

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    async def join(self, subscriber: Subscriber, since: ClusterImage) -> None:
        """Subscribes with an earlier image. Returns once the subscriber has received the difference."""
        joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._joining.append((subscriber, since, joined))
        self._start()
        await joined

    def expect(self, step: PendingChange) -> None:
        self._pending_changes.append(step)

    async def wait_until_applied(self, offset: int) -> None:
        """Returns once everything up to this offset is committed and applied."""
        if self._image.offset < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waits += 1
            heappush(self._waiting, (offset, self._waits, future))
            await future

    async def stop(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        for _, _, future in self._waiting:
            future.cancel()

    # QuorumListener

    def on_commit(self, end_offset: int) -> None:
        if end_offset > self._committed_end:
            self._committed_end = end_offset
            self._start()

    def on_snapshot_loaded(self, image: ClusterImage) -> None:
        self._loaded = image
        self._committed_end = max(self._committed_end, image.offset + 1)
        self._start()

    def on_leadership(self, epoch: int) -> None:
        """The controller announces its batches with `expect`."""

    def on_leadership_lost(self, epoch: int) -> None:
        """Batches of the former controller are read from the log if they are committed."""
        self._pending_changes.clear()

    def on_failure(self, error: Exception) -> None:
        """Committed batches may still be applied."""

    # Applying

    def _start(self) -> None:
        if self._loading is None and not self._has_failed:
            self._loading = asyncio.ensure_future(self._load())

    def _fail(self, error: Exception) -> None:
        """Later changes are based on the one that is not applied."""
        self._has_failed = True
        self._on_failure(error)

    async def _load(self) -> None:
        try:
            while True:
                if self._joining:
                    await self._join(*self._joining.popleft())
                elif self._loaded is not None:
                    await self._apply_snapshot(self._loaded)
                elif self._image.offset + 1 < self._committed_end:
                    await self._apply_log()
                else:
                    return
        except OffsetOutOfLog:
            # A snapshot is replacing the log and is applied next.
            logger.debug("Log after offset %d was replaced by a snapshot", self._image.offset)
        except (OSError, ValueError, KafkaError, Fault) as error:
            # A KafkaError: a batch or a control record is damaged.
            self._fail(error)
        except Exception as error:
            logger.exception("Metadata change not applied: offset=%d", self._image.offset + 1)
            self._fail(Fault("metadata loader", error))
        finally:
            self._loading = None
        if self._loaded is not None:
            # The snapshot was loaded before the log read failed.
            self._start()

    async def _join(self, subscriber: Subscriber, since: ClusterImage, joined: asyncio.Future[None]) -> None:
        if since is not self._image:
            await self._notify(subscriber, self._image, difference(since, self._image))
        self._subscribers.append(subscriber)
        if not joined.done():
            joined.set_result(None)

    async def _apply_snapshot(self, image: ClusterImage) -> None:
        self._loaded = None
        self._pending_changes.clear()
        self._policy.on_snapshot()
        if image.offset > self._image.offset:
            await self._publish(image, difference(self._image, image))
            self._replay = Replay(image)

    async def _apply_log(self) -> None:
        position = self._image.offset + 1
        while self._pending_changes and self._pending_changes[0].first_offset < position:
            self._pending_changes.popleft()
        end = self._committed_end
        if self._pending_changes:
            step = self._pending_changes[0]
            if step.first_offset == position:
                assert step.image.offset < end, "batches are committed as a whole"
                self._pending_changes.popleft()
                await self._publish_pending(step)
                return
            end = min(end, step.first_offset)
        await self._apply_batches(position, end)

    async def _publish_pending(self, step: PendingChange) -> None:
        self._policy.note(step.size_bytes, self._clock.wall_ms())
        self._replay = Replay(step.image)
        await self._publish(step.image, step.delta)

    async def _apply_batches(self, position: int, end: int) -> None:
        store = self._store
        data = store.read_cached(position, end, _READ_BYTES)
        if data is None:
            data = await self._executor.run(lambda: store.read(position, end, _READ_BYTES), lane=LANE)
        for batch in read_committed(data):
            if self._loaded is not None:
                return
            self._policy.note(batch.size_bytes, self._clock.wall_ms())
            self._replay.take(batch)
            self.on_control(batch.control)
            for message in batch.control:
                if isinstance(message, KRaftVersion):
                    self._replay.note_kraft_version(message.kraft_version)
            await self._publish(*self._replay.step())

    async def _publish(self, image: ClusterImage, delta: ImageDelta) -> None:
        assert image.offset >= self._image.offset, f"image offset {self._image.offset} became {image.offset}"
        for subscriber in self._subscribers:
            await self._notify(subscriber, image, delta)
        self._image = image
        while self._waiting and self._waiting[0][0] <= image.offset:
            _, _, future = heappop(self._waiting)
            if not future.done():
                future.set_result(None)
        if self._policy.bytes_since >= self._policy.max_bytes:
            self.on_snapshot_due()

    @staticmethod
    async def _notify(subscriber: Subscriber, image: ClusterImage, delta: ImageDelta) -> None:
        try:
            await subscriber(image, delta)
        except Exception as error:
            # Not an error of the metadata log, whatever its type.
            logger.exception("Metadata change not applied by a subscriber: offset=%d", image.offset)
            raise Fault(f"the metadata change at offset {image.offset}", error) from error
