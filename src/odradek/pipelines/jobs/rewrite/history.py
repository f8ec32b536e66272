"""How far a rewrite is: by its plans, and by the sink, which alone says which batches are finished."""

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
from odradek.pipelines.spark.exactly_once.states import NO_BATCH, last_finished
from odradek.pipelines.spark.options import DEFAULT_DECISION_TOPIC
from odradek.pipelines.spark.sink.decision_log import DecisionLog
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError


class RewriteHistory:
    """Of a job that has begun."""

    def __init__(self, cluster: Cluster, state: JobState, name: str) -> None:
        self._cluster: Final = cluster
        self._state: Final = state
        self._name: Final = name
        known = state.identity()
        self.id: Final = known["id"]
        self.sink: Final = sink_name(name, self.id)
        self.target: Final = TargetTopic(known["target"], known["target_id"], int(known["partitions"]))

    def done(self) -> int:
        """The last batch that is visible."""
        log = DecisionLog(self._cluster, DEFAULT_DECISION_TOPIC, self.sink)
        try:
            return last_finished(log.read())
        except UnknownTopic:
            return NO_BATCH

    def reached(self) -> tuple[Positions, Plan | None]:
        """Up to where the target has everything, and the batch that was planned and is not finished.

        Raises UserError if plans and sink do not fit.
        """
        done, last = self.done(), self._state.last_plan()
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
        """Where the target ended behind a batch: what comes later is not the job's."""
        form = {"batch": batch, "ends": {str(one.partition): offset for one, offset in ends.items()}}
        write_atomically(self._ends_file, json.dumps(form, sort_keys=True) + "\n")

    def ends(self) -> dict[TopicPartition, int] | None:
        """None: not known, since a run died just then."""
        if not self._ends_file.is_file():
            return None
        form = json.loads(self._ends_file.read_text())
        if form["batch"] != self.done():
            return None
        return {TopicPartition(self.target.name, int(number)): offset for number, offset in form["ends"].items()}

    @property
    def _ends_file(self) -> Path:
        return self._state.directory / "written.json"


def sink_name(name: str, job_id: str) -> str:
    """Raises UserError for a name that a sink cannot have."""
    found = f"odradek.{name}.{job_id}"
    if task_id_prefix("") in found:
        raise UserError(f"--name {name!r} is invalid. It must not contain {task_id_prefix('')!r}.")
    return found
