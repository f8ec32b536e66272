"""The walk of a Spark micro-batch in the Python workers: plan the offsets on the driver, read one range in a task.

The broker's part of it is the walk of Fetch.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from odradek.base.errors import ErrorCode
from odradek.client.connection import milliseconds
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import ScriptedBroker, topic_id
from tests.unit.walks.call_chain import function_of

pytestmark = [pytest.mark.needs("pyspark", "pyarrow", "numba")]

MODULES_MAX: Final = 12
VERSIONS: Final = {ApiKey.METADATA: (0, 13), ApiKey.LIST_OFFSETS: (1, 8), ApiKey.FETCH: (4, 13)}
LANDMARKS: Final = ("Connection.begin", "record_batches")
BATCH: Final = bytes(build_batch([Record(b"key", b"value", 0)]))


def list_offsets(request: Message, chosen: Schema) -> Message:
    is_latest = request.topics[0].partitions[0].timestamp == -1
    partition = chosen.new(
        "ListOffsetsPartitionResponse",
        partition_index=0,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=1 if is_latest else 0,
        leader_epoch=0,
    )
    topic = chosen.new("ListOffsetsTopicResponse", name="t", partitions=(partition,))
    return chosen.new("ListOffsetsResponse", throttle_time=milliseconds(0), topics=(topic,))


def fetch(request: Message, chosen: Schema) -> Message:
    partition = chosen.new(
        "PartitionData",
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=1,
        last_stable_offset=1,
        log_start_offset=0,
        aborted_transactions=None,
        records=BATCH,
    )
    topic = chosen.new("FetchableTopicResponse", topic="t", topic_id=topic_id("t"), partitions=(partition,))
    return chosen.new(
        "FetchResponse", throttle_time=milliseconds(0), error_code=ErrorCode.none, session_id=0, responses=(topic,)
    )


def modules_to_landmarks(work: Callable[[], Any]) -> list[str]:
    """The modules on the call stack when the work sends a request, or builds rows."""
    modules: dict[str, None] = {}

    def on_event(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_qualname not in LANDMARKS:
            return
        stack: list[str] = []
        caller: FrameType | None = frame
        while caller is not None:
            function = function_of(caller.f_code)
            if function is not None:
                stack.append(function.module)
            caller = caller.f_back
        modules.update(dict.fromkeys(reversed(stack)))

    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(modules)


def test_spark_micro_batch_passes_at_most_twelve_modules() -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from odradek.pipelines.spark.source import OdradekSource

    with ScriptedBroker({ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: fetch}, VERSIONS) as broker:
        broker.handlers[ApiKey.METADATA] = broker.metadata({"t": 1})
        options = {"kafka.bootstrap.servers": str(broker.address), "subscribe": "t", "startingOffsets": "earliest"}
        source = OdradekSource(options)
        rows: list[int] = []

        def run_batch() -> None:
            reader = source.streamReader(source.schema())
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadAllAvailable())
            for task in reader.partitions(start, end):
                rows.extend(batch.num_rows for batch in reader.read(task))
            reader.commit(end)
            reader.stop()

        # The first batch imports and compiles, which a profile would slow down.
        run_batch()
        modules = modules_to_landmarks(run_batch)
    print(f"\nSpark micro-batch: {len(modules)} modules")
    for number, module in enumerate(modules, 1):
        print(f"  {number}. {module}")
    assert rows == [1, 1]
    assert len(modules) <= MODULES_MAX
