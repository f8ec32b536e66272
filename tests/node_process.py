"""A broker as a process of its own: formatted, started on free ports, stopped, killed, measured.

What is common to Odradek and Apache Kafka lives here; neither is named here.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.patience import Patience

CLUSTER_ID = "odradek-test-cluster-1"
NODE_ID = 1
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.005
LISTENING_PORTS = range(12_000, 32_000)
WORKERS_MAX = 8

# Half a minute after its start a broker deletes expired segments, and the fixed timestamps of test batches are expired.
KEEPS_OLD_RECORDS = {"log.initial.task.delay.ms": str(24 * 60 * 60 * 1000)}

# Metadata v1 for no topic: the smallest request whose response lists the brokers.
_METADATA_REQUEST = struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0)


class NodeFailed(Exception):
    """A node did not start, or exited; the message ends with the last lines of its log."""


def _own_ports() -> Iterator[int]:
    """Cycle through this worker's own ports, so that a port is reused as late as possible.

    They are outside the ephemeral range: a client could otherwise take the port of a node that is down, or connect to
    itself.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
    size = len(LISTENING_PORTS) // WORKERS_MAX
    own = LISTENING_PORTS[worker * size : (worker + 1) * size]
    begin = random.randrange(size)
    return itertools.cycle((*own[begin:], *own[:begin]))


_PORTS = _own_ports()


def free_ports(count: int) -> list[int]:
    """Ports that are not in use now, consecutive if possible."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", next(_PORTS)))
            except OSError:
                continue
            found.append(probe.getsockname()[1])
    return found


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie; it may exit during the check."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def _resident_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # A zombie has none.
    lines = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return sum(int(line.split()[1]) * 1024 for line in lines)


def serves(port: int, host: str = "127.0.0.1") -> bool:
    """Whether the node on this port responds to Metadata and lists at least one live broker."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(_METADATA_REQUEST)
            response = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(response) == 12 and struct.unpack_from(">i", response, 8)[0] > 0


class NodeProcess(ABC):
    """One combined broker and controller under `directory`, with a `server.properties` both brokers understand."""

    name: ClassVar[str]
    host = "127.0.0.1"
    cluster_id = CLUSTER_ID

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        log_dirs: Sequence[Path] = (),
    ) -> None:
        self.directory = directory
        self.log_dirs = list(log_dirs) or [directory / "data"]
        self.port, self.controller_port = free_ports(2)
        self.properties = dict(properties or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.started_in_s = 0.0
        self._spawned_at = 0.0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the node was not started"
        return self.process.pid

    @property
    def config_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def output_file(self) -> Path:
        return self.directory / "output.log"

    @abstractmethod
    def format_command(self) -> list[str]: ...

    @abstractmethod
    def start_command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> Self:
        """Start the node and wait until it serves clients; `started_in_s` is the time that took."""
        return self.spawn().wait_until_ready()

    def spawn(self) -> Self:
        """Format unformatted directories, start the process and return at once."""
        self.prepare()
        self._spawned_at = time.monotonic()
        with self.output_file.open("ab") as output:
            self.process = subprocess.Popen(
                self.start_command(), stdout=output, stderr=subprocess.STDOUT, env=self.environment()
            )
        return self

    def prepare(self) -> None:
        """Do everything that must precede the start of the process."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text("".join(f"{key}={value}\n" for key, value in self.server_properties().items()))
        if not (self.log_dirs[0] / "meta.properties").exists():
            self._run_to_end(self.format_command())

    def wait_until_ready(self) -> Self:
        assert self.process is not None, "the node was not started"
        patience = Patience(START_TIMEOUT_S)
        while not self.is_ready():
            if self.process.poll() is not None:
                raise NodeFailed(f"{self.name} ended with {self.process.returncode}\n{self._last_output()}")
            if patience.is_over():
                self.kill()
                raise NodeFailed(f"{self.name} did not respond in {START_TIMEOUT_S:.0f} s\n{self._last_output()}")
            time.sleep(POLL_INTERVAL_S)
        self.started_in_s = time.monotonic() - self._spawned_at
        return self

    def is_ready(self) -> bool:
        return serves(self.port, self.host)

    def stop(self) -> None:
        """Stop cleanly with SIGTERM and assert that the node exits."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(f"{self.name} did not stop in {STOP_TIMEOUT_S:.0f} s\n{self._last_output()}") from None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def worker_pids(self) -> list[int]:
        """The processes that the node has started."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            # A process may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state, parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                if state != "Z" and int(parent) == self.pid:
                    found.append(int(process.name))
        return found

    @property
    def resident_bytes(self) -> int:
        """Of the node and its workers."""
        return sum(map(_resident_bytes, (self.pid, *self.worker_pids)))

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the process since it started."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def server_properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(str(path) for path in self.log_dirs),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.properties,
        }

    def _run_to_end(self, command: list[str]) -> None:
        result = subprocess.run(command, capture_output=True, text=True, env=self.environment(), check=False)
        if result.returncode != 0:
            raise NodeFailed(f"{' '.join(command)} ended with {result.returncode}\n{result.stdout}{result.stderr}")

    def _last_output(self, lines: int = 40) -> str:
        if not self.output_file.exists():
            return ""
        return "\n".join(self.output_file.read_text(errors="replace").splitlines()[-lines:])
