"""Apache Kafka's classes in an archive that Java maps into memory, so that brokers and tools start in half the time.

The archive is built once, from the classes that a broker and a few tools load, and kept in the cache.
"""

import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.components import cache_directory, find_program
from tests.node_process import free_ports

BUILD_S_MAX: Final = 180.0
# Java reports on its standard output which classes an archive leaves out, and archives that it cannot use.
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512M")
_TOPIC: Final = "archive"
_PROGRAM: Final = Path(__file__).parent / "java" / "Assignors.java"


def archive_flags(libs: Path) -> tuple[str, ...]:
    """Options of a Java whose class path starts with all jars of `libs`. Builds the archive if there is none.

    Jars without a broker have no archive. Java itself checks that an archive fits its version and the jars, and starts
    without it if not.
    """
    if not any(libs.glob("kafka_2*.jar")):
        return ()
    archive = cache_directory() / f"{libs.name}.jsa"
    if not archive.exists():
        with _lock(archive.with_suffix(".lock")):
            if not archive.exists():
                _build(libs, archive)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(libs: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="odradek-archive-") as work:
        directory = Path(work)
        names = _Training(libs, directory).class_names()
        classes = directory / "classes"
        classes.write_text("".join(f"{name}\n" for name in names))
        part = archive.with_suffix(f".{os.getpid()}")
        options = (f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={part}")
        _run(_java(libs, "-Xshare:dump", *options), directory / "dump.log")
        part.rename(archive)


class _Training:
    """A broker and tools that only load classes."""

    def __init__(self, libs: Path, directory: Path) -> None:
        self._libs: Final = libs
        self._directory: Final = directory
        self._port, self._controller_port = free_ports(2)
        self._lists: Final[list[Path]] = []

    def class_names(self) -> list[str]:
        """Each class once, in loading order."""
        config = self._write_config()
        self._run_tool("kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(config))
        with (self._directory / "broker.log").open("wb") as log:
            command = [*self._listing("kafka.Kafka"), str(config)]
            broker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._use_broker()
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(BUILD_S_MAX)
        lines = (line for file in self._lists for line in file.read_text().splitlines())
        return list(dict.fromkeys(line for line in lines if not line.startswith("#")))

    def _use_broker(self) -> None:
        server = ("--bootstrap-server", f"127.0.0.1:{self._port}")
        _wait_for_port(self._port)
        self._run_tool("org.apache.kafka.tools.TopicCommand", *server, "--create", "--topic", _TOPIC)
        self._run_tool("org.apache.kafka.tools.ConsoleProducer", *server, "--topic", _TOPIC, text="record\n")
        consumer = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000", "--group", "archive")
        self._run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, "--topic", _TOPIC, *consumer)
        self._run_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *server, "--list")
        self._run_tool("kafka.admin.ConfigCommand", *server, "--describe", "--topic", _TOPIC)
        # A program that exits at once, to load the classes of the compiler.
        self._run_tool(str(_PROGRAM))

    def _write_config(self) -> Path:
        config = self._directory / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": self._directory / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return config

    def _run_tool(self, main_class: str, *arguments: str, text: str = "") -> None:
        log = self._directory / f"tool-{len(self._lists)}.log"
        _run([*self._listing(main_class), *arguments], log, text)

    def _listing(self, main_class: str) -> list[str]:
        self._lists.append(self._directory / f"{len(self._lists)}.classes")
        return [*_java(self._libs, f"-XX:DumpLoadedClassList={self._lists[-1]}"), main_class]


def _java(libs: Path, *options: str) -> list[str]:
    return [find_program("java"), *_FLAGS, *_QUIET, *options, "-cp", f"{libs}/*"]


def _run(command: Sequence[str], log: Path, text: str = "") -> None:
    with log.open("wb") as output:
        result = subprocess.run(
            command, input=text.encode(), stdout=output, stderr=subprocess.STDOUT, timeout=BUILD_S_MAX, check=False
        )
    assert result.returncode == 0, f"{' '.join(command)} failed: {log.read_text(errors='replace')[-2000:]}"


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + BUILD_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the broker does not start"
            time.sleep(0.1)
