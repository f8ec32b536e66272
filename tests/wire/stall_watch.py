"""Watches a node's event loop from outside while a test misbehaves: the bystander's word on how long it had to wait."""

import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from tests.components import ROOT
from tests.node_process import NodeProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import LATEST, create_topic, list_offset, until

STALL_MS = 100
TOPIC = "bystander"


class StallWatch:
    """Around what is expected not to stall the node. A topic of the bystander's own is used once per node."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._topic = f"{TOPIC}-{time.monotonic_ns()}"
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        with RawConnection(self._node.port) as connection:
            create_topic(connection, self._topic)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.wire.bystander", str(self._node.port), str(self._node.pid), self._topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._wait_for_first_record()
        return self

    def _wait_for_first_record(self) -> None:
        """The bystander takes a moment to start: without it nothing would be watched."""
        with RawConnection(self._node.port) as connection:
            until(lambda: list_offset(connection, self._topic, LATEST) > 0, what="the bystander's start")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        report, errors = self._process.communicate(timeout=30)
        if kind is not None:
            return
        assert self._process.returncode == 0, f"a well-behaved client was disturbed:\n{errors}"
        seen = json.loads(report)
        assert seen["longest_ms"] < STALL_MS, f"the loop stalled for {seen['longest_ms']:.0f} ms"
