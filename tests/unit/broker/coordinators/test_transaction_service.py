"""Requests between brokers for transactions, over real connections."""

import asyncio
import random
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators.transaction_service import TransactionService
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.topic_names import TRANSACTION_STATE
from odradek.core.transactions.commands import Markers
from odradek.host.clock import SystemClock
from odradek.host.disk import HostDisk
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.wire.schemas import schema
from tests.unit.broker.coordinators.tally import Threads, run
from tests.unit.server.peer_stage import API_VERSIONS, Node, ScriptedNode, versions_response

HERE, THERE = 1, 2
PARTITION = TopicPartition("t", 0)
ADD_PARTITIONS, MARKERS = 24, 27
CONFIG = """
process.roles=broker
node.id=1
controller.quorum.voters=9@localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://localhost:9092
log.dirs=/nowhere
"""


class _Image:
    """Everything but this broker's own is with the other one."""

    def __init__(self, port: int) -> None:
        endpoint = SimpleNamespace(host="localhost", port=port)
        self.brokers = {THERE: SimpleNamespace(endpoint=lambda _: endpoint)}
        led_there = SimpleNamespace(partitions={0: SimpleNamespace(leader=THERE)})
        self.topics_by_name = {TRANSACTION_STATE: led_there, "t": led_there}
        self.features = SimpleNamespace(level=lambda _: 2)


def _respond_in_order(scripted: ScriptedNode, node: Node, correlation_id: int) -> None:
    """Like a broker: a request that waits blocks the later requests of its connection."""
    if scripted.received_requests[-1][0] == MARKERS:
        node.received = _Unread()
        return
    messages = schema(ADD_PARTITIONS, 5)
    results = messages.new(
        "AddPartitionsToTxnResult",
        transactional_id="x",
        topic_results=(
            messages.new(
                "AddPartitionsToTxnTopicResult",
                name="t",
                results_by_partition=(
                    messages.new(
                        "AddPartitionsToTxnPartitionResult", partition_index=0, partition_error_code=ErrorCode.none
                    ),
                ),
            ),
        ),
    )
    response = messages.new(
        "AddPartitionsToTxnResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results_by_transaction=(results,),
        results_by_topic_v3_and_below=(),
    )
    node.send_response(correlation_id, b"\0" + messages.write(response))


class _Unread(bytearray):
    def __iadd__(self, _: Any) -> "_Unread":
        return self


def test_verification_does_not_wait_for_markers_of_other_transactions() -> None:
    """A marker waits for the replicas of its partition, possibly until one of them leaves the ISR."""

    async def work() -> None:
        async with ScriptedNode() as scripted:
            apis = ((ADD_PARTITIONS, 0, 5), (MARKERS, 1, 2), (API_VERSIONS, 0, 4))
            scripted.on_versions = lambda node, version, correlation_id: node.send_response(
                correlation_id, versions_response(version, apis)
            )
            scripted.on_request = lambda node, correlation_id: _respond_in_order(scripted, node, correlation_id)
            image = cast(Any, _Image(scripted.port))
            service = TransactionService(
                NodeConfig.load(CONFIG, "test"),
                image=lambda: image,
                clock=SystemClock(),
                random=random.Random(1),
                workers=ThreadWorkers(Threads(), HostDisk(), load_program),
                producer_ids=cast(Any, SimpleNamespace(take=lambda: 1)),
                write_here=cast(Any, None),
                on_disk_failure=lambda _, error: None,
            )
            markers = Markers("other", 7, 1, 5, True, 2, frozenset((PARTITION,)))
            service._marker_sender.send(markers, lambda: True, lambda _: None)
            await scripted.wait_until(lambda: any(key == MARKERS for key, _, _ in scripted.received_requests))
            joined = service.add_or_verify_partitions("x", 8, 0, frozenset((PARTITION,)), adds=True)
            assert await asyncio.wait_for(joined.wait(), 5) == {PARTITION: ErrorCode.none}
            service.stop()

    run(work())
