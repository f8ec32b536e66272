"""The driver's metadata requests: a query's partitions and their start and end offsets."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownTopic
from odradek.client.layout import TopicLayout
from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.options import Bound, ClientOptions, ReadOptions
from odradek.pipelines.spark.topic_offsets import Positions, id_text
from odradek.pipelines.spark.version_check import check_version
from odradek.text.errors import as_sentence

Partitions = dict[TopicPartition, str]
"""Partitions with their topic IDs."""


def open_cluster(options: ClientOptions, *, is_known: bool = False) -> Cluster:
    """`is_known`: the cluster was reachable before, so wait for it. Raises VersionMismatch."""
    check_version(options.version)
    try:
        addresses = parse_bootstrap(options.bootstrap_servers)
    except ValueError as error:
        raise OptionError(as_sentence(f"Option kafka.bootstrap.servers: {error}")) from None
    return Cluster(
        addresses,
        client_id=options.client_id,
        timeout_s=options.timeout_s,
        security=options.security,
        is_known=is_known,
    )


class Topics:
    """The topics of one query. Keeps connections open until it is closed."""

    def __init__(self, options: ReadOptions) -> None:
        self._options: Final = options
        self._cluster: Final = open_cluster(options.client)
        self._admin: Final = Admin(self._cluster)

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    def close(self) -> None:
        self._cluster.close()

    def partitions(self, *, missing_is_none: bool = False) -> Partitions:
        """Return the current partitions. Raises UnknownTopic for a missing topic unless `missing_is_none`."""
        found: Partitions = {}
        for topic in self._layouts(missing_is_none):
            for one in topic.partitions:
                partition = TopicPartition(topic.name, one.id)
                if not self._options.assigned or partition in self._options.assigned:
                    found[partition] = id_text(topic.id)
        if not missing_is_none:
            for partition in self._options.assigned:
                if partition not in found:
                    raise OptionError(f"Option assign: partition {partition} does not exist.")
        return dict(sorted(found.items()))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the latest offsets; with read_committed, the last stable offsets."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def first_since(self, partitions: Iterable[TopicPartition], timestamp_ms: int | None) -> dict[TopicPartition, int]:
        """Return each partition's first offset at or after the timestamp, if there is one. Without a timestamp, 0."""
        if timestamp_ms is None:
            return dict.fromkeys(partitions, 0)
        found = self._offsets(dict.fromkeys(partitions, timestamp_ms))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def resolve(self, bound: Bound, partitions: Partitions, *, name: str) -> Positions:
        """Convert a bound to offsets. `name` is the option, for errors."""
        unknown = [str(partition) for partition in bound.by_partition if partition not in partitions]
        if unknown:
            raise OptionError(f"Option {name}: the query does not read {', '.join(unknown)}.")
        missing = [str(partition) for partition in partitions if partition not in bound.by_partition]
        if bound.default is None and missing:
            raise OptionError(f"Option {name} must list all partitions. Add {', '.join(missing)}.")
        wanted = {one: bound.by_partition.get(one, bound.default) for one in partitions}
        offsets = {one: number for one, number in wanted.items() if number is not None}
        if bound.is_timestamp:
            offsets = self._at_times(offsets, bound, name)
        else:
            offsets |= self._offsets({one: number for one, number in offsets.items() if number in (EARLIEST, LATEST)})
        resolved = Positions()
        for partition, offset in offsets.items():
            resolved.put(partition, partitions[partition], offset)
        return resolved

    def _at_times(self, times: Mapping[TopicPartition, int], bound: Bound, name: str) -> dict[TopicPartition, int]:
        found = self._offsets(times)
        beyond = [one for one, offset in found.items() if offset < 0]
        if beyond and not bound.missing_is_latest:
            raise OptionError(
                f"Option {name}: no record at or after {times[beyond[0]]} in {', '.join(map(str, beyond))}. Set "
                "startingOffsetsByTimestampStrategy to latest to start at the end of such partitions."
            )
        return found | self.latest(beyond)

    def _offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not timestamps:
            return {}
        return self._admin.offsets(timestamps, read_committed=self._options.read_committed)

    def _layouts(self, missing_is_none: bool) -> Iterable[TopicLayout]:
        if self._options.pattern is not None:
            pattern = re.compile(self._options.pattern)
            layout = self._cluster.retry("looking up topics", lambda: self._cluster.layout(None))
            return [topic for name, topic in layout.topics.items() if pattern.fullmatch(name) and not topic.is_internal]
        names = self._options.topics or tuple(dict.fromkeys(one.topic for one in self._options.assigned))
        found = []
        for name in names:
            try:
                found.append(self._topic(name))
            except UnknownTopic:
                if not missing_is_none:
                    raise
        return found

    def _topic(self, name: str) -> TopicLayout:
        return self._cluster.retry(f"looking up topic {name!r}", lambda: self._cluster.topics([name])[name])
