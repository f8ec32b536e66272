"""Apache Kafka starts with the files of `odradek up --secure`: properties, certificates, SCRAM user, metadata log."""

import subprocess
import time
from pathlib import Path

import pytest

from odradek.cli.main import run
from odradek.local.security_files import SecurityFiles
from tests.kafka.apache_kafka import SHORT_LIVED_FLAGS, java_class
from tests.wire.up_process import START_TIMEOUT_S, free_row, up


def test_kafka_serves_the_directory_of_a_secure_cluster(
    tmp_path: Path, apache_kafka_libs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir, port = tmp_path / "cluster", free_row()
    files = SecurityFiles(data_dir)
    secured = ["-b", f"127.0.0.1:{port}", "--command-config", str(files.client_properties)]
    with up(data_dir, port, "--secure"):
        assert run(["topic", "create", "events", *secured]) == 0
        assert run(["produce", "events", "from odradek", *secured]) == 0
    properties = data_dir / "node-1" / "server.properties"
    command = [*java_class(apache_kafka_libs, SHORT_LIVED_FLAGS, "kafka.Kafka"), str(properties)]
    log = tmp_path / "kafka.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as kafka:
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while run(["produce", "events", "from kafka", "--timeout", "5", *secured]) != 0:
                assert kafka.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
            capsys.readouterr()
            assert run(["consume", "events", "--no-follow", *secured]) == 0
            assert capsys.readouterr().out == "from odradek\nfrom kafka\n"
        finally:
            kafka.terminate()
            kafka.wait(START_TIMEOUT_S)
    assert files.administrator().password not in log.read_text()
