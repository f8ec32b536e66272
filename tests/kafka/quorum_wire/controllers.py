"""A quorum of Apache Kafka's controllers, each behind a relay that records their messages."""

import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

from odradek.base.ids import uuid_to_text
from tests.kafka.apache_kafka import SHORT_LIVED_FLAGS, java_class
from tests.kafka.quorum_wire.relay import Exchange, Relay
from tests.node_process import free_ports

CLUSTER_ID = "quorum-wire-recording1"
LISTENER = "CONTROLLER"
FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx256M")


class Controller:
    def __init__(self, libs: Path, directory: Path, node_id: int, keep: Callable[[Exchange], None]) -> None:
        self.node_id = node_id
        self.directory_id = UUID(int=(0xD1 << 120) + node_id)
        (self.port,) = free_ports(1)
        self.relay = Relay(self.port, keep)
        self._libs = libs
        self._directory = directory / f"controller-{node_id}"
        self._directory.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def voter(self) -> str:
        return f"{self.node_id}@127.0.0.1:{self.relay.port}:{uuid_to_text(self.directory_id)}"

    @property
    def metadata_directory(self) -> Path:
        return self._directory / "data" / "__cluster_metadata-0"

    def format(self, bootstrap: str, initial_voters: str, properties: Mapping[str, str]) -> None:
        settings = {
            "process.roles": "controller",
            "node.id": str(self.node_id),
            "listeners": f"{LISTENER}://127.0.0.1:{self.port}",
            "advertised.listeners": f"{LISTENER}://127.0.0.1:{self.relay.port}",
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": bootstrap,
            "log.dirs": str(self._directory / "data"),
            **properties,
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        voters = ["--initial-controllers", initial_voters] if initial_voters else ["--no-initial-controllers"]
        command = [*self._java(SHORT_LIVED_FLAGS, "kafka.tools.StorageTool"), "format", "--cluster-id", CLUSTER_ID]
        subprocess.run([*command, "--config", str(self._config), *voters], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        with (self._directory / "output.log").open("ab") as output:
            command = [*self._java(FLAGS, "kafka.Kafka"), str(self._config)]
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(how)
            self._process.wait(60)

    @property
    def _config(self) -> Path:
        return self._directory / "server.properties"

    def _java(self, flags: tuple[str, ...], main_class: str) -> list[str]:
        return java_class(self._libs, flags, main_class)
