"""Java uses Apache Kafka's class archive; otherwise it would start slowly without it."""

import subprocess
from pathlib import Path

from tests.components import find_program
from tests.kafka.class_archive import archive_flags


def test_java_loads_kafka_classes_from_the_archive(apache_kafka_libs: Path) -> None:
    # With -Xshare:on Java does not start if it cannot use the archive.
    command = [find_program("java"), "-Xshare:on", *archive_flags(apache_kafka_libs), "-cp", f"{apache_kafka_libs}/*"]
    result = subprocess.run(
        [*command, "-Xlog:class+load", "kafka.tools.StorageTool", "random-uuid"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "kafka.tools.StorageTool$ source: shared objects file" in result.stdout


def test_jars_without_a_broker_have_no_archive(tmp_path: Path) -> None:
    assert archive_flags(tmp_path) == ()
