"""The offsets that a job reads: start, end and batches, and whether the records still exist."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.layout import TopicLayout
from odradek.client.positions import start_positions
from odradek.pipelines.spark.planning import limit_offsets
from odradek.pipelines.spark.topic_offsets import Positions, id_text
from odradek.text.errors import UserError
from odradek.text.times import parse_time_ms

Offsets = dict[TopicPartition, int]


class TopicRange:
    """The topic of one job. Ends are last stable offsets."""

    def __init__(self, cluster: Cluster, topic: str, *, skip_lost: bool) -> None:
        self.topic: Final = topic
        self._cluster: Final = cluster
        self._admin: Final = Admin(cluster)
        self._skip_lost: Final = skip_lost

    def layout(self) -> TopicLayout:
        """Raises UnknownTopic."""
        return self._cluster.retry("looking up the topic", lambda: self._cluster.topics([self.topic]))[self.topic]

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, one.id) for one in self.layout().partitions]

    def first(self, where: str) -> Positions:
        """Return the start offsets for `--from`."""
        layout = self.layout()
        partitions = [TopicPartition(self.topic, one.id) for one in layout.partitions]
        offsets = start_positions(self._admin, partitions, where, read_committed=True)
        return self._positions(layout, self._available(offsets))

    def next(self, reached: Positions) -> Positions:
        """Return the offsets to resume from. New partitions start at 0."""
        layout = self.check_same(reached)
        offsets = {
            partition: found if (found := reached.find(partition)) is not None else 0
            for partition in (TopicPartition(self.topic, one.id) for one in layout.partitions)
        }
        return self._positions(layout, self._available(offsets))

    def check_same(self, reached: Positions) -> TopicLayout:
        """Raises UserError if the topic was recreated since."""
        layout = self.layout()
        known = reached.get(self.topic)
        if known is not None and known.id != id_text(layout.id):
            raise UserError(
                f"Topic {self.topic!r} was deleted and recreated since the job started. Start a new job with its own "
                "--name."
            )
        return layout

    def last(self, where: str | None) -> Offsets:
        """Return the end offsets for `--to`. The default is the current end."""
        partitions = self.partitions()
        ends = self.latest(partitions)
        if where is None or where == "end":
            return ends
        if re.fullmatch(r"\d{1,18}", where, re.ASCII):
            return {one: min(int(where), ends[one]) for one in partitions}
        if where.isalpha():
            raise UserError(f"--to {where!r} is invalid. Use end, an offset, or a time such as 2026-01-31T12:00:00Z.")
        found = self._admin.offsets(dict.fromkeys(partitions, parse_time_ms(where, "--to")))
        return {one: min(found[one], ends[one]) if found[one] >= 0 else ends[one] for one in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return self._admin.offsets(dict.fromkeys(partitions, LATEST), read_committed=True)

    def earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return self._admin.offsets(dict.fromkeys(partitions, EARLIEST))

    def _available(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        partitions = list(offsets)
        earliest, latest = self.earliest(partitions), self._admin.offsets(dict.fromkeys(partitions, LATEST))
        kept: Offsets = {}
        for one, offset in offsets.items():
            if not self._skip_lost and offset < earliest[one]:
                raise UserError(
                    f"Offset {offset} of {one} is no longer available: retention has deleted all records before offset "
                    f"{earliest[one]}. Use --skip-lost to continue with the remaining records."
                )
            if not self._skip_lost and offset > latest[one]:
                raise UserError(
                    f"{one} ends at offset {latest[one]}, before the job's offset {offset}: the cluster has lost "
                    "records. "
                    "Use --skip-lost to continue with the remaining records."
                )
            kept[one] = min(max(offset, earliest[one]), latest[one])
        return kept

    def _positions(self, layout: TopicLayout, offsets: Offsets) -> Positions:
        found = Positions()
        for one, offset in offsets.items():
            found.put(one, id_text(layout.id), offset)
        return found


def limit_batch(start: Positions, target: Mapping[TopicPartition, int], records_max: int) -> Positions | None:
    """Return the end of the next batch, or None if the target is reached. Pure."""
    starts = dict(start.partitions())
    ends = {one: max(offset, target.get(one, offset)) for one, offset in starts.items()}
    if ends == starts:
        return None
    found = Positions()
    for one, end in limit_offsets(starts, ends, records_max).items():
        found.put(one, start[one.topic].id, end)
    return found


def source_options(brokers: Mapping[str, str], start: Positions, end: Positions) -> dict[str, str]:
    """Return options of `format("odradek")` for exactly these offsets."""
    topic = next(iter(end))
    wanted = {one.partition: (start.find(one) or 0, offset) for one, offset in end.partitions()}
    wanted = {number: (first, last) for number, (first, last) in wanted.items() if first < last}
    return {
        **brokers,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: sorted(wanted)}),
        "startingOffsets": json.dumps({topic: {str(number): first for number, (first, _) in sorted(wanted.items())}}),
        "endingOffsets": json.dumps({topic: {str(number): last for number, (_, last) in sorted(wanted.items())}}),
    }
