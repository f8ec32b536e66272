"""One fsync for many waiting producers: `flush.messages` and `flush.ms` without a sync per request.

While a sync is running, all callers that need a later offset wait for the next one, which covers them all.
A failed sync is never retried: the kernel may have dropped the pages and would then report success.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from odradek.base.background import start_task
from odradek.base.errors import is_disk_failure
from odradek.base.ports import Executor, Pool


class GroupSync:
    def __init__(
        self,
        threads: Executor,
        sync: Callable[[int], None],
        end_offset: Callable[[], int],
        on_synced: Callable[[int], None],
    ) -> None:
        self.threads = threads
        self._sync = sync
        self._end_offset = end_offset
        # Called on the loop with the offset below which everything is synced.
        self._on_synced = on_synced
        self._synced_to = -1
        # The lowest offset to which the log was truncated since the running sync began.
        self._truncated_to: int | None = None
        self._failure: OSError | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._running: asyncio.Task[None] | None = None

    async def wait_for(self, offset: int) -> None:
        """Returns once everything below `offset` is synced. Raises the OSError of a failed sync; after a disk failure
        every later call raises it too."""
        if self._failure is not None:
            raise self._failure
        if offset <= self._synced_to:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, done))
        if self._running is None:
            self._running = start_task("group sync", self._run())
        await done

    def on_truncation(self, offset: int) -> None:
        """The log ends here now: records appended at these offsets later are not synced. Waiters for higher offsets
        wait for records that no longer exist, and are released."""
        self._synced_to = min(self._synced_to, offset)
        self._truncated_to = offset if self._truncated_to is None else min(self._truncated_to, offset)
        self._release(lambda waited_for: waited_for > offset, None)

    @property
    def running(self) -> asyncio.Task[None] | None:
        """The task of the running sync and its successors."""
        return self._running

    async def _run(self) -> None:
        try:
            while self._waiting and self._failure is None:
                target = self._end_offset()
                self._truncated_to = None
                threads = self.threads
                try:
                    await threads.run(partial(self._sync, target), pool=Pool.SYNC)
                except OSError:
                    if threads is self.threads:
                        raise
                    # The log moved to another log dir, and the disk of the old one hangs: sync it where it is now.
                    continue
                reached = target if self._truncated_to is None else min(target, self._truncated_to)
                self._synced_to = max(self._synced_to, reached)
                self._on_synced(reached)
                self._release(lambda offset: offset <= self._synced_to, None)
        except OSError as error:
            if is_disk_failure(error):
                self._failure = error
            self._release(lambda _: True, error)
        finally:
            self._running = None

    def _release(self, ready: Callable[[int], bool], error: OSError | None) -> None:
        still_waiting = []
        for offset, done in self._waiting:
            if not ready(offset):
                still_waiting.append((offset, done))
            elif not done.done():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        self._waiting = still_waiting
