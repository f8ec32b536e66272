"""From the committed log to the image that this node serves from, and to everybody who follows it.

Subscribers hear of every change in order, one at a time. What this node decided itself, as the active controller, is
not read back from the log: its image is there already, and becomes the node's once the log is committed so far.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from heapq import heappop, heappush
from typing import Final, NamedTuple

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


class DecidedStep(NamedTuple):
    """A batch that this node's controller wrote, and what it makes of the image."""

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
        failed: Callable[[Exception], None],
    ) -> None:
        self._store: Final = store
        self._policy: Final = policy
        self._clock: Final = clock
        self._executor: Final = executor
        self._failed: Final = failed
        self._replay = Replay(store.image)
        self._image = store.image
        self._committed_end = store.image.offset + 1
        self._decided: Final[deque[DecidedStep]] = deque()
        self._loaded: ClusterImage | None = None
        """A snapshot that is to take the place of the image."""
        self._subscribers: Final[list[Subscriber]] = []
        self._joining: Final[deque[tuple[Subscriber, ClusterImage, asyncio.Future[None]]]] = deque()
        self._waiting: Final[list[tuple[int, int, asyncio.Future[None]]]] = []
        """For offsets: a heap, in which the second number keeps the order of asking."""
        self._asked = 0
        self._loading: asyncio.Task[None] | None = None
        self.on_snapshot_due: Callable[[], None] = lambda: None
        self.on_control: Callable[[Iterable[ControlMessage]], None] = lambda messages: None
        """Told what the quorum says of itself in its log."""

    @property
    def image(self) -> ClusterImage:
        """What is committed and taken up by the subscribers."""
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
        """Subscribes somebody who has an image of an earlier time. Returns once it knows what happened meanwhile."""
        joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._joining.append((subscriber, since, joined))
        self._begin()
        await joined

    def expect(self, step: DecidedStep) -> None:
        self._decided.append(step)

    async def wait_until_applied(self, offset: int) -> None:
        """Returns once everything up to this offset is committed and taken up."""
        if self._image.offset < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._asked += 1
            heappush(self._waiting, (offset, self._asked, future))
            await future

    async def stop(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        for _, _, future in self._waiting:
            future.cancel()

    # What the driver says

    def committed_up_to(self, end_offset: int) -> None:
        if end_offset > self._committed_end:
            self._committed_end = end_offset
            self._begin()

    def snapshot_loaded(self, image: ClusterImage) -> None:
        self._loaded = image
        self._committed_end = max(self._committed_end, image.offset + 1)
        self._begin()

    def became_controller(self, epoch: int) -> None:
        """Its decisions will be told by `expect`."""

    def lost_leadership(self, epoch: int) -> None:
        """What was decided here, and is committed all the same, is read from the log."""
        self._decided.clear()

    def broke(self, error: Exception) -> None:
        """What is committed may still be taken up."""

    # Taking it up

    def _begin(self) -> None:
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())

    async def _load(self) -> None:
        try:
            while True:
                if self._joining:
                    await self._let_join(*self._joining.popleft())
                elif self._loaded is not None:
                    await self._take_snapshot(self._loaded)
                elif self._image.offset + 1 < self._committed_end:
                    await self._take_log()
                else:
                    return
        except OffsetOutOfLog:
            # A snapshot is just taking the log's place; what it says comes next.
            logger.debug("the log behind offset %d is gone", self._image.offset)
        except (OSError, ValueError) as error:
            self._failed(error)
        finally:
            self._loading = None
        if self._loaded is not None:
            # It came before this was heard.
            self._begin()

    async def _let_join(self, subscriber: Subscriber, since: ClusterImage, joined: asyncio.Future[None]) -> None:
        if since is not self._image:
            await self._tell(subscriber, self._image, difference(since, self._image))
        self._subscribers.append(subscriber)
        if not joined.done():
            joined.set_result(None)

    async def _take_snapshot(self, image: ClusterImage) -> None:
        self._loaded = None
        self._decided.clear()
        self._policy.taken()
        if image.offset > self._image.offset:
            await self._publish(image, difference(self._image, image))
            self._replay = Replay(image)

    async def _take_log(self) -> None:
        position = self._image.offset + 1
        while self._decided and self._decided[0].first_offset < position:
            self._decided.popleft()
        end = self._committed_end
        if self._decided:
            step = self._decided[0]
            if step.first_offset == position:
                assert step.image.offset < end, "batches are committed as a whole"
                self._decided.popleft()
                await self._publish_step(step)
                return
            end = min(end, step.first_offset)
        await self._take_batches(position, end)

    async def _publish_step(self, step: DecidedStep) -> None:
        self._policy.note(step.size_bytes, self._clock.wall_ms())
        self._replay = Replay(step.image)
        await self._publish(step.image, step.delta)

    async def _take_batches(self, position: int, end: int) -> None:
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
            await self._tell(subscriber, image, delta)
        self._image = image
        while self._waiting and self._waiting[0][0] <= image.offset:
            _, _, future = heappop(self._waiting)
            if not future.done():
                future.set_result(None)
        if self._policy.bytes_since >= self._policy.max_bytes:
            self.on_snapshot_due()

    @staticmethod
    async def _tell(subscriber: Subscriber, image: ClusterImage, delta: ImageDelta) -> None:
        try:
            await subscriber(image, delta)
        except Exception:
            # What is committed stays so, whoever stumbles over it; the others must hear of it all the same.
            logger.exception("a change of the metadata at offset %d was not taken up", image.offset)
