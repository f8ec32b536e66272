"""Runs a pipeline and stores its status."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownTopic
from odradek.client.explain import explain_unknown_topic
from odradek.client.security import NOTHING, Security
from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.pipeline.definition import Pipeline
from odradek.pipelines.jobs.pipeline.queries import PipelineQueries
from odradek.pipelines.jobs.pipeline.restarting_query import RestartingQuery
from odradek.pipelines.jobs.pipeline.status import PipelineStatus, QueryWatch
from odradek.pipelines.jobs.status_file import DONE, FAILED, RUNNING, STOPPED
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S: Final = 0.5
# How often to refresh the status without progress.
_KEEP_S: Final = 5.0
# A batch that takes longer to stop is interrupted and repeated by the next run.
_BATCH_S_MAX: Final = 60.0

OnStatus = Callable[[PipelineStatus], None]


def lock_file(pipeline: Pipeline) -> Path:
    return pipeline.state / "lock"


def check_topics(cluster: Cluster, pipeline: Pipeline) -> None:
    """Raises UserError with all missing topics."""
    missing = []
    for topic in dict.fromkeys(pipeline.topics()):
        try:
            cluster.retry("looking up topics", lambda topic=topic: cluster.topics([topic]))  # type: ignore[misc]
        except UnknownTopic as error:
            missing.append(explain_unknown_topic(error.topic, error.known))
    if missing:
        raise UserError(" ".join(missing))


def check_identity(pipeline: Pipeline) -> None:
    """Check that the checkpoints belong to this pipeline. Call it while the lock is held."""
    file = pipeline.state / "pipeline"
    identity = "\n".join([pipeline.name, *sorted(f"{one.name} {one.topic}" for one in pipeline.sources)]) + "\n"
    if file.is_file():
        known = file.read_text()
        if known != identity:
            raise UserError(
                f"{str(pipeline.state)!r} contains the state of pipeline {known.split()[0]!r} with other sources. "
                "Choose "
                "another directory with `state`."
            )
        return
    write_atomically(file, identity)


def run_pipeline(
    spark: "SparkSession",
    pipeline: Pipeline,
    *,
    security: Security = NOTHING,
    on_status: OnStatus = lambda status: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> PipelineStatus:
    """Run until the available records are processed or `should_stop`.

    Raises UserError if a query fails; the others stop too.
    """
    queries: dict[str, RestartingQuery] = {}
    watches: dict[str, QueryWatch] = {}

    def status(state: str, failure: str | None = None) -> PipelineStatus:
        found = tuple(watch.status for watch in watches.values())
        return PipelineStatus(os.getpid(), state, time.time_ns() // 1_000_000, found, failure)

    failure: str | None = "The run was interrupted."
    state = FAILED
    kept_at = float("-inf")
    try:
        for name, start in PipelineQueries(spark, pipeline, security).starters():
            queries[name], watches[name] = RestartingQuery(name, start), QueryWatch(name)
        while True:
            active = any(query.running.isActive for query in queries.values())
            news = _update_watches(queries, watches)
            if news:
                on_status(status(RUNNING))
            if news or time.monotonic() > kept_at + _KEEP_S:
                status(RUNNING).keep(pipeline.state)
                kept_at = time.monotonic()
            # After checking for active queries: an ended query has set its exception by then.
            active |= any(query.restart_if_slow() for query in queries.values())
            if not active or should_stop():
                break
            time.sleep(_POLL_S)
        state, failure = (STOPPED if should_stop() and active else DONE), None
    except UserError as error:
        failure = str(error)
        raise
    finally:
        _stop(queries, wait=failure is None)
        _update_watches(queries, watches)
        status(state, failure).keep(pipeline.state)
    return status(state)


def _update_watches(queries: Mapping[str, RestartingQuery], watches: Mapping[str, QueryWatch]) -> bool:
    news = [
        watches[name].take([json.loads(one.json) for one in query.running.recentProgress])
        for name, query in queries.items()
    ]
    return any(news)


def _stop(queries: Mapping[str, RestartingQuery], *, wait: bool) -> None:
    until = time.monotonic() + (_BATCH_S_MAX if wait else 0.0)
    for query in (one.running for one in queries.values()):
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
            time.sleep(_POLL_S / 10)
        query.stop()
