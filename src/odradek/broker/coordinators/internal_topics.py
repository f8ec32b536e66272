"""Internal topics are created by the first broker that is asked for one, through the controller like all others."""

import asyncio
from typing import Final

from odradek.broker.apis.auto_topic_creation import Creator, create_topics


class InternalTopics:
    def __init__(self, broker: Creator) -> None:
        self._broker: Final = broker
        self._under_way: Final[dict[str, asyncio.Task[None]]] = {}

    def create(self, name: str) -> None:
        if name not in self._under_way:
            task = self._under_way[name] = asyncio.ensure_future(create_topics([name], None, self._broker))
            task.add_done_callback(lambda _: self._under_way.pop(name))

    def stop(self) -> None:
        for task in self._under_way.values():
            task.cancel()
