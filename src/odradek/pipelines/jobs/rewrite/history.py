"""The progress of a rewrite, from its plans and from the sink, which determines the finished batches."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownTopic
from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.rewrite.target import TargetTopic
from odradek.pipelines.jobs.state import JobState, Plan
from odradek.pipelines.spark.exactly_once.names import task_id_prefix
from odradek.pipelines.spark.exactly_once.states import NO_BATCH, last_finished_batch
from odradek.pipelines.spark.options import DEFAULT_DECISION_TOPIC
from odradek.pipelines.spark.sink.decision_log import DecisionLog
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError


class RewriteHistory:
    """The history of a job that has started."""

    def __init__(self, cluster: Cluster, state: JobState, name: str) -> None:
        self._cluster: Final = cluster
        self._state: Final = state
        self._name: Final = name
        known = state.identity()
        self.id: Final = known["id"]
        self.sink: Final = sink_name(name, self.id)
        self.target: Final = TargetTopic(known["target"], known["target_id"], int(known["partitions"]))

    def last_batch(self) -> int:
        """Return the last committed batch."""
        log = DecisionLog(self._cluster, DEFAULT_DECISION_TOPIC, self.sink)
        try:
            return last_finished_batch(log.read())
        except UnknownTopic:
            return NO_BATCH

    def find_progress(self) -> tuple[Positions, Plan | None]:
        """Return the offsets that the target has reached, and the batch that is planned but not finished.

        Raises UserError if plans and sink do not match.
        """
        done, last = self.last_batch(), self._state.last_plan()
        planned = NO_BATCH if last is None else last.batch
        if planned == done:
            return (self._state.first() or Positions()) if last is None else last.end, None
        if last is None or planned != done + 1:
            raise UserError(
                f"Topic {self.target.name!r} ends with batch {done} of job {self._name!r}, but the state in "
                f"{str(self._state.directory)!r} ends with batch {planned}. The state is an older copy. Restore the "
                "newest copy, or start a new job with another topic."
            )
        return last.start, last

    def keep_ends(self, batch: int, ends: Mapping[TopicPartition, int]) -> None:
        """Store the target's end after a batch. Later records are not the job's."""
        form = {"batch": batch, "ends": {str(one.partition): offset for one, offset in ends.items()}}
        write_atomically(self._ends_file, json.dumps(form, sort_keys=True) + "\n")

    def ends(self) -> dict[TopicPartition, int] | None:
        """Return None if unknown, after a crash before the ends were stored."""
        if not self._ends_file.is_file():
            return None
        form = json.loads(self._ends_file.read_text())
        if form["batch"] != self.last_batch():
            return None
        return {TopicPartition(self.target.name, int(number)): offset for number, offset in form["ends"].items()}

    @property
    def _ends_file(self) -> Path:
        return self._state.directory / "written.json"


def sink_name(name: str, job_id: str) -> str:
    """Raises UserError if the name is invalid for a sink."""
    found = f"odradek.{name}.{job_id}"
    if task_id_prefix("") in found:
        raise UserError(f"--name {name!r} is invalid. It must not contain {task_id_prefix('')!r}.")
    return found
