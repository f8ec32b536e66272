"""How the records of small batches are walked on the event loop: interpreted at first, and compiled under load.

Loading numba takes more than a second of CPU time and memory, and its first calls compile: both happen in a thread.
"""

from typing import Final

from odradek.base.background import log_fault, start_task
from odradek.base.ports import Executor, Pool
from odradek.records.walk import INTERPRETED_WALK, Walk, load_walk

LOAD_AFTER_RECORDS: Final = 500_000
"""To interpret as many records takes as much CPU time as to load numba."""


class RecordWalks:
    def __init__(self, executor: Executor) -> None:
        self._executor: Final = executor
        self._walk = INTERPRETED_WALK
        self._records = 0
        self._is_loading = False

    def on_loop(self, record_count: int) -> Walk:
        """The walk for a batch with this number of records."""
        if not self._is_loading:
            self._records += record_count
            if self._records >= LOAD_AFTER_RECORDS:
                self._is_loading = True
                # Without it, records are interpreted as before.
                start_task("loading of the compiled walk", self._load(), log_fault)
        return self._walk

    async def _load(self) -> None:
        self._walk = await self._executor.run(load_walk, pool=Pool.VALIDATION)
