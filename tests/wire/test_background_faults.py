"""Unexpected errors in the background of a node: it resigns, starts the work again, or stops with the error."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.broker.broker import Broker
from odradek.broker.cleaning import Cleaning
from odradek.broker.maintenance import Maintenance
from odradek.core.controller.controller import Controller
from odradek.core.raft.snapshot_policy import SnapshotPolicy
from odradek.core.raft.state_machine import RaftStateMachine
from odradek.instruments.loop_watch import LoopWatch
from odradek.node.broker_lifecycle import BrokerLifecycle
from odradek.node.run import EXIT_FAILED
from odradek.quorum.loader import MetadataLoader
from odradek.quorum.quorum import Quorum
from odradek.quorum.store import QuorumStore
from odradek.storage.partition.group_sync import GroupSync
from tests.apis import Api
from tests.cluster.real_cluster import wait_for
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import ConnectionClosed, RawConnection
from tests.record_batches import TestRecord, batch
from tests.wire.hosted_node import HostedNode

QUICK: Final = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "500",
    "metadata.max.idle.interval.ms": "100",
    "unclean.leader.election.interval.ms": "100",
    "leader.imbalance.check.interval.seconds": "1",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.flush.interval.messages": "1",
}
PLANTED: Final = "AssertionError: planted"
TOPIC: Final = "orders"


def fail(*_: object, **__: object) -> Any:
    raise AssertionError("planted")


async def fail_later(*_: object, **__: object) -> Any:
    raise AssertionError("planted")


@pytest.fixture
def node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> HostedNode:
    caplog.set_level(logging.INFO)
    return HostedNode(tmp_path, properties={**QUICK, "http.address": f"127.0.0.1:{free_ports(1)[0]}"})


def quorum_of(node: HostedNode) -> Quorum:
    assert node.node._quorum is not None
    return node.node._quorum


def has_logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(text in record.getMessage() for record in list(caplog.records))


def create_topic(node: HostedNode) -> None:
    new = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    with RawConnection(node.port) as connection:
        connection.request(Api.CREATE_TOPICS, 5, {"topics": [new], "timeout": 10_000})


# Triggers

Trigger = Callable[[HostedNode], None]


def by_itself(node: HostedNode) -> None:
    """The task runs every hundred milliseconds."""


def produce(node: HostedNode) -> None:
    partition = {"index": 0, "records": batch(TestRecord())}
    fields = {"acks": -1, "timeout": 10_000, "topic_data": [{"name": TOPIC, "partition_data": [partition]}]}

    def send() -> None:
        try:
            with RawConnection(node.port) as connection:
                connection.request(Api.PRODUCE, 9, fields)
        except ConnectionClosed:
            # The node stops before it responds.
            pass

    threading.Thread(target=send, daemon=True).start()


def maintain(node: HostedNode) -> None:
    node.call(quorum_of(node)._start_maintenance)


def resign(node: HostedNode) -> None:
    node.call(lambda: quorum_of(node).driver.resign(quorum_of(node).driver.epoch))


STOPS: Final = {
    "quorum state machine": (RaftStateMachine, "step", fail, by_itself),
    "quorum driver": (QuorumStore, "append", fail, by_itself),
    "quorum driver: AssertionError": (QuorumStore, "clean", fail, maintain),
    "sync of the metadata log": (QuorumStore, "flush", fail, by_itself),
    "metadata loader": (MetadataLoader, "_publish_pending", fail_later, by_itself),
    "the metadata change at offset": (Broker, "_apply_partitions", fail_later, by_itself),
    "heartbeats": (BrokerLifecycle, "_next_interval", fail, by_itself),
    "log cleaner": (Cleaning, "_clean_one", fail_later, by_itself),
    "group sync": (GroupSync, "_release", fail, produce),
}


@pytest.mark.parametrize("task", STOPS)
def test_a_node_stops_with_the_error_of_a_task_that_it_needs(
    node: HostedNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    owner, attribute, broken, trigger = STOPS[task]
    with node:
        create_topic(node)
        monkeypatch.setattr(owner, attribute, broken)
        trigger(node)
        wait_for("the failure", lambda: node.failure is not None)
        monkeypatch.undo()
    assert_stopped_loudly(node, caplog, task)


def assert_stopped_loudly(node: HostedNode, caplog: pytest.LogCaptureFixture, task: str) -> None:
    assert node.failure is not None
    assert node.failure.startswith(f"Unexpected error in {task}")
    assert PLANTED in node.failure
    assert has_logged(caplog, node.failure)
    assert any(record.exc_info for record in caplog.records if record.levelno >= logging.ERROR), "no traceback"


def test_a_node_stops_with_the_error_of_a_timer(node: HostedNode, caplog: pytest.LogCaptureFixture) -> None:
    with node:
        node.call(lambda: asyncio.get_running_loop().call_later(0.01, fail))
        wait_for("the failure", lambda: node.failure is not None)
    assert_stopped_loudly(node, caplog, "a callback")


CONTINUES: Final = {
    "Periodic task retention failed": (Maintenance, "_available", fail, by_itself),
    "Unexpected error in metadata snapshot": (SnapshotPolicy, "is_due", fail, maintain),
    "Unexpected error in measurement of the event loop": (LoopWatch, "observe", fail, by_itself),
}


@pytest.mark.parametrize("message", CONTINUES)
def test_work_that_starts_again_is_only_logged(
    node: HostedNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    owner, attribute, broken, trigger = CONTINUES[message]
    with node:
        sound = getattr(owner, attribute)
        called_again = threading.Event()

        def note_call(*arguments: Any) -> Any:
            called_again.set()
            return sound(*arguments)

        monkeypatch.setattr(owner, attribute, broken)
        trigger(node)
        wait_for("the error", lambda: has_logged(caplog, message))
        monkeypatch.setattr(owner, attribute, note_call)
        trigger(node)
        assert called_again.wait(10)
        create_topic(node)
        monkeypatch.undo()
    assert node.failure is None


RESIGNS: Final = {
    "session expiry": (Controller, "expire_sessions", by_itself),
    "unclean leader election": (Controller, "elect_unclean_leaders", by_itself),
    "no-op records": (Controller, "write_no_op", by_itself),
    "leader rebalancing": (Controller, "balance_leaders", by_itself),
    "activation of the controller": (Controller, "start_sessions", resign),
}


@pytest.mark.parametrize("task", RESIGNS)
def test_the_active_controller_resigns(
    node: HostedNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    owner, attribute, trigger = RESIGNS[task]
    sound = getattr(owner, attribute)
    failures = 0
    is_broken = threading.Event()

    def fail_once(*arguments: Any) -> Any:
        nonlocal failures
        if is_broken.is_set() and failures == 0:
            failures += 1
            raise AssertionError("planted")
        return sound(*arguments)

    monkeypatch.setattr(owner, attribute, fail_once)
    with node:
        epoch = quorum_of(node).driver.epoch
        is_broken.set()
        trigger(node)
        wait_for("the resignation", lambda: has_logged(caplog, "Resigning as active controller"))
        wait_for("a new epoch", lambda: quorum_of(node).driver.epoch > epoch)
        create_topic(node)
    assert has_logged(caplog, f"Unexpected error in {task}")
    assert node.failure is None


@pytest.mark.parametrize("task", RESIGNS)
def test_a_node_stops_if_its_controller_fails_again(
    node: HostedNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    owner, attribute, trigger = RESIGNS[task]
    sound = getattr(owner, attribute)
    is_broken = threading.Event()

    def fail_always(*arguments: Any) -> Any:
        return fail() if is_broken.is_set() else sound(*arguments)

    monkeypatch.setattr(owner, attribute, fail_always)
    with node:
        is_broken.set()
        trigger(node)
        wait_for("the failure", lambda: node.failure is not None)
    assert has_logged(caplog, "Resigning as active controller")
    assert_stopped_loudly(node, caplog, task)


FAILING_PROCESS: Final = """\
import sys
from odradek.local.start_node import start_node
from odradek.node.broker_lifecycle import BrokerLifecycle

def fail(self, response):
    if self._unfenced.done():
        raise AssertionError("planted")
    return sound(self, response)

sound, BrokerLifecycle._next_interval = BrokerLifecycle._next_interval, fail
sys.exit(start_node(sys.argv[1], []))
"""


class FailingProcess(OdradekProcess):
    def start_command(self) -> list[str]:
        return [sys.executable, "-c", FAILING_PROCESS, str(self.config_file)]


def test_the_process_of_a_failed_node_exits_with_an_error(tmp_path: Path) -> None:
    process = FailingProcess(tmp_path, properties=QUICK)
    try:
        process.spawn()
        assert process.process is not None
        assert process.process.wait(60) == EXIT_FAILED
    except subprocess.TimeoutExpired:
        pytest.fail(process.output_file.read_text())
    finally:
        process.kill()
    assert process.output_file.read_text().splitlines()[-1] == f"error: Unexpected error in heartbeats: {PLANTED}"
