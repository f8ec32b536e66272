"""Apache Kafka 4.3.1, the reference: its jars from Maven, its broker as a process, its tools as functions."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.components import find_program
from tests.kafka.class_archive import archive_flags
from tests.maven import Artifact, fetched_jars
from tests.node_process import NodeProcess

VERSION = "4.3.1"
REFERENCE = (pytest.mark.kafka, pytest.mark.reference)
"""Markers of a test that runs against Apache Kafka instead of Odradek."""
ARTIFACTS = ("kafka_2.13", "kafka-tools", "kafka-shell")
STREAMS_ARTIFACTS = ("kafka-streams",)
TOOL_TIMEOUT_S = 120
SHELL_TIMEOUT_S = 20

# A tool runs for a second: full compilation would take longer than the run.
SHORT_LIVED_FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx256M")
TEST_BROKER_FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx512M")
# The flags of Kafka's own start script.
PRODUCTION_BROKER_FLAGS = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def kafka_libs() -> Path:
    """The directory of Kafka's jars, downloaded on first use. Raises ComponentMissing without Java or Maven."""
    return _libs("ODRADEK_KAFKA_LIBS", f"kafka-{VERSION}", ARTIFACTS)


def kafka_streams_libs() -> Path:
    """Like `kafka_libs`, for Kafka Streams applications: a client and RocksDB, without a broker."""
    return _libs("ODRADEK_KAFKA_STREAMS_LIBS", f"kafka-streams-{VERSION}", STREAMS_ARTIFACTS)


def _libs(variable: str, name: str, artifacts: Sequence[str]) -> Path:
    find_program("java")
    if given := os.environ.get(variable):
        return Path(given)
    return fetched_jars(name, [Artifact("org.apache.kafka", one, VERSION) for one in artifacts])


class ApacheKafka(NodeProcess):
    name = "kafka"

    def __init__(
        self,
        libs: Path,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        log_dirs: Sequence[Path] = (),
        flags: Sequence[str] = TEST_BROKER_FLAGS,
    ) -> None:
        super().__init__(directory, properties=properties, log_dirs=log_dirs)
        self._libs = libs
        self._flags = flags

    def format_command(self) -> list[str]:
        tool = java_class(self._libs, SHORT_LIVED_FLAGS, "kafka.tools.StorageTool")
        return [*tool, "format", "--cluster-id", self.cluster_id, "--config", str(self.config_file)]

    def start_command(self) -> list[str]:
        return [*java_class(self._libs, self._flags, "kafka.Kafka"), str(self.config_file)]


class ToolFailed(Exception):
    """A tool failed; the message contains its whole output."""


class KafkaTools:
    """The shell scripts of Kafka's `bin/`, by their main classes. Each method returns the output of the tool."""

    def __init__(self, libs: Path, bootstrap: str) -> None:
        self._libs = libs
        self._bootstrap = bootstrap

    def topics(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.TopicCommand", *self._server(), *arguments)

    def configs(self, *arguments: str) -> str:
        return self.run("kafka.admin.ConfigCommand", *self._server(), *arguments)

    def acls(self, *arguments: str, configuration: Path | None = None) -> str:
        file = ("--command-config", str(configuration)) if configuration else ()
        return self.run("org.apache.kafka.tools.AclCommand", *self._server(), *file, *arguments)

    def console_producer(self, *arguments: str, lines: Sequence[str]) -> str:
        text = "".join(f"{line}\n" for line in lines)
        return self.run("org.apache.kafka.tools.ConsoleProducer", *self._server(), *arguments, standard_input=text)

    def console_consumer(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *self._server(), *arguments)

    def producer_performance(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.ProducerPerformance", *self._server(), *arguments)

    def dump_log(self, *files: Path, arguments: Sequence[str] = ()) -> str:
        names = ",".join(str(file) for file in files)
        return self.run("org.apache.kafka.tools.DumpLogSegments", "--files", names, *arguments)

    def log_dirs(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.LogDirsCommand", *self._server(), *arguments)

    def get_offsets(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.GetOffsetShell", *self._server(), *arguments)

    def delete_records(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.DeleteRecordsCommand", *self._server(), *arguments)

    def broker_api_versions(self) -> str:
        return self.run("org.apache.kafka.tools.BrokerApiVersionsCommand", *self._server())

    def features(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.FeatureCommand", *self._server(), *arguments)

    def cluster(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.ClusterTool", *arguments, *self._server())

    def metadata_quorum(self, *arguments: str, controllers: str = "", configuration: Path | None = None) -> str:
        """Query the brokers, or the controllers at the given addresses."""
        server = ("--bootstrap-controller", controllers) if controllers else self._server()
        file = ("--command-config", str(configuration)) if configuration else ()
        return self.run("org.apache.kafka.tools.MetadataQuorumCommand", *server, *file, *arguments)

    def delegation_tokens(self, configuration: Path, *arguments: str) -> str:
        server = (*self._server(), "--command-config", str(configuration))
        return self.run("org.apache.kafka.tools.DelegationTokenCommand", *server, *arguments)

    def storage(self, *arguments: str) -> str:
        return self.run("kafka.tools.StorageTool", *arguments)

    def metadata_shell(self, snapshot: Path, *command: str) -> str:
        """Raises ToolFailed if the shell hangs: it sometimes waits without end, also for a snapshot of Kafka's own."""
        shell = "org.apache.kafka.shell.MetadataShell"
        try:
            return self.run(shell, "--snapshot", str(snapshot), *command, timeout_s=SHELL_TIMEOUT_S)
        except subprocess.TimeoutExpired as hung:
            raise ToolFailed(f"{shell} {' '.join(command)} did not end within {SHELL_TIMEOUT_S} s") from hung

    def reassign_partitions(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *self._server(), *arguments)

    def consumer_groups(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *self._server(), *arguments)

    def transactions(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.TransactionsCommand", *self._server(), *arguments)

    def run(
        self,
        main_class: str,
        *arguments: str,
        standard_input: str = "",
        flags: Sequence[str] = SHORT_LIVED_FLAGS,
        timeout_s: float = TOOL_TIMEOUT_S,
    ) -> str:
        result = subprocess.run(
            [*java_class(self._libs, flags, main_class), *arguments],
            input=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if result.returncode != 0:
            raise ToolFailed(f"{main_class} {' '.join(arguments)} ended with {result.returncode}\n{result.stdout}")
        return "".join(line for line in result.stdout.splitlines(keepends=True) if not line.startswith("SLF4J:"))

    def _server(self) -> tuple[str, str]:
        return "--bootstrap-server", self._bootstrap


def java_class(libs: Path, flags: Sequence[str], main_class: str) -> list[str]:
    """The command that runs a class of Kafka's jars. Only test flags use the class archive."""
    archive = archive_flags(libs) if "-Xshare:auto" in flags else ()
    return [find_program("java"), *flags, *archive, "-cp", f"{libs}/*", main_class]
