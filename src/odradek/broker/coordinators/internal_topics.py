"""Creates internal topics through the controller, at the first request that needs one."""

import asyncio
from typing import Final

from odradek.base.background import log_fault, start_task
from odradek.broker.apis.auto_topic_creation import Creator, create_topics


class InternalTopics:
    def __init__(self, broker: Creator) -> None:
        self._broker: Final = broker
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}

    def create(self, name: str) -> None:
        if name not in self._tasks:
            # The next request starts it again.
            creation = create_topics([name], None, self._broker)
            task = self._tasks[name] = start_task(f"creation of {name}", creation, log_fault)
            task.add_done_callback(lambda _: self._tasks.pop(name))

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
