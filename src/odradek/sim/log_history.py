"""The batches that the logs of one computer have had, with the time at which each came and went.

It follows the `.log` files of partitions on the disk, without the code that writes them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from odradek.base.ids import TopicPartition, uuid_from_text
from odradek.sim.disk import FileNode, VirtualDisk
from odradek.sim.stored_log import HEADER, split

# Also in directories of log dir moves, and files that compaction is writing.
_LOG_FILE: Final = re.compile(r".*/([^/]+)-(\d+)(?:\.[^/.]+-(?:future|delete|stray))?/\d{20}\.log(?:\.\w+)?")
_TOPIC_ID_FILE: Final = re.compile(r".*/([^/]+)-\d+(?:\.[^/.]+-future)?/partition\.metadata(?:\.tmp)?")
_TOPIC_ID: Final = re.compile(r"topic_id: (\S{22})")


@dataclass(slots=True, eq=False)
class BatchVersion:
    """A batch at one position of a file, until the file is truncated or overwritten there."""

    file: "LogFile"
    position: int
    base_offset: int
    last_offset: int
    data: bytes
    added: int
    """When it came: see `Scheduler.next_place`."""
    ended: int | None = None

    @property
    def end(self) -> int:
        return self.position + len(self.data)


class LogFile:
    """The observer of a `.log` file."""

    def __init__(self, node: FileNode, next_place: Callable[[], int], add: Callable[[BatchVersion], None]) -> None:
        self._node: Final = node
        self._next_place: Final = next_place
        self._add: Final = add
        # Ordered by position.
        self._current: Final[list[BatchVersion]] = []
        self.removed: int | None = None
        """When its last name was removed."""

    def on_write(self, position: int) -> None:
        self._end_after(position)
        self._read_on()

    def on_resize(self, size: int) -> None:
        self._end_after(size)

    def on_reload(self) -> None:
        # A power loss may bring back the name, too.
        self.removed = None
        self._end_after(0)
        self._read_on()

    def on_removal(self) -> None:
        self.removed = self._next_place()

    def _end_after(self, position: int) -> None:
        current = self._current
        if current and current[-1].end > position:
            now = self._next_place()
            while current and current[-1].end > position:
                current.pop().ended = now

    def _read_on(self) -> None:
        content = self._node.cached
        start = self._current[-1].end if self._current else 0
        for data in split(content.read(start, content.size - start)):
            base_offset, *_, last_offset_delta = HEADER.unpack_from(data)
            last_offset = base_offset + last_offset_delta
            version = BatchVersion(self, start, base_offset, last_offset, data, self._next_place())
            self._current.append(version)
            self._add(version)
            start = version.end


class LogHistory:
    def __init__(self, disk: VirtualDisk, next_place: Callable[[], int]) -> None:
        """Follows the files that are created from now on."""
        self._next_place: Final = next_place
        self._versions: Final[defaultdict[TopicPartition, defaultdict[int, list[BatchVersion]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._topic_id_files: Final[list[tuple[str, FileNode]]] = []
        disk.create_watcher = self._on_create

    def versions(self, partition: TopicPartition, base_offset: int) -> Sequence[BatchVersion]:
        return self._versions[partition].get(base_offset, ())

    def topic_names(self) -> dict[UUID, str]:
        """The topics of all partitions that were created on this computer."""
        names = {}
        for topic, node in self._topic_id_files:
            found = _TOPIC_ID.search(node.cached.read(0, node.cached.size).decode(errors="replace"))
            if found is not None:
                names[uuid_from_text(found[1])] = topic
        return names

    def _on_create(self, path: str, node: FileNode) -> None:
        if (log := _LOG_FILE.fullmatch(path)) is not None:
            versions = self._versions[TopicPartition(log[1], int(log[2]))]
            node.observer = LogFile(node, self._next_place, lambda one: versions[one.base_offset].append(one))
        elif (topic_id := _TOPIC_ID_FILE.fullmatch(path)) is not None:
            self._topic_id_files.append((topic_id[1], node))
