"""What Spark reports of a query, added up."""

import json
from pathlib import Path
from typing import Any

from odradek.pipelines.jobs.pipeline.status import PipelineStatus, QueryWatch


def report(batch: int, rows: int, offset: int, **more: Any) -> dict[str, Any]:
    def position(at: int) -> str:
        return json.dumps({"t": {"id": "x", "offsets": {"0": at}}})

    source = {"endOffset": position(offset), "latestOffset": position(20)}
    return {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 5.0, "sources": [source], **more}


def test_each_batch_is_counted_once() -> None:
    watch = QueryWatch("sink")
    assert not watch.take([])
    first = report(0, 4, 4, observedMetrics={"dead_letters": {"rows": 2}})
    assert watch.take([first])
    assert not watch.take([first])
    assert watch.take([first, report(1, 6, 10)])
    status = watch.status
    assert (status.batch, status.records, status.dead_letters, status.lag, status.seconds_left) == (1, 10, 2, 10, 2.0)


def test_reports_of_a_connect_server() -> None:
    progress = report(0, 4, 4, observedMetrics={"dead_letters": {"values": [2], "schema": {"type": "struct"}}})
    progress["sources"][0] |= {figure: progress.pop(figure) for figure in ("numInputRows", "processedRowsPerSecond")}
    watch = QueryWatch("sink")
    watch.take([progress])
    assert (watch.status.records, watch.status.dead_letters, watch.status.records_per_second) == (4, 2, 5.0)


def test_pipeline_status_round_trip(tmp_path: Path) -> None:
    assert PipelineStatus.read(tmp_path) is None
    watch = QueryWatch("sink")
    watch.take([report(0, 4, 4)])
    status = PipelineStatus(7, "failed", 1, (watch.status,), "why")
    status.keep(tmp_path)
    assert PipelineStatus.read(tmp_path) == status
