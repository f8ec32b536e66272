import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


@pytest.fixture
def orders(cli: Cli, topic: str) -> str:
    cli.ok("topic", "create", topic, "-p", "2")
    return topic


def consumed(cli: Cli, topic: str, *options: str) -> list[dict[str, object]]:
    outcome = cli.ok("consume", topic, "--no-follow", "--format", "json", *options)
    return [json.loads(line) for line in outcome.lines]


def test_values_from_the_command_line(cli: Cli, orders: str) -> None:
    outcome = cli.ok("produce", orders, "one", "two", "-p", "1", "-k", "key", "-H", "a=1", "-H", "b=2")
    assert "2 records" in outcome.messages
    assert "partition 1 offsets 0-1" in outcome.messages
    first, second = consumed(cli, orders)
    assert (first["partition"], first["offset"], first["key"], first["value"]) == (1, 0, "key", "one")
    assert first["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    assert second["value"] == "two"


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_from_standard_input(cli: Cli, orders: str, compression: str) -> None:
    lines = b"".join(b"k%d:value %d\n" % (number % 10, number) for number in range(5000))
    summary = cli.ok("produce", orders, "-K", ":", "-z", compression, "--format", "json", stdin=lines).json
    assert summary["records"] == 5000
    assert sum(one["last_offset"] + 1 for one in summary["partitions"]) == 5000
    shown = cli.ok("consume", orders, "--no-follow", "--show", "key").output
    by_key: dict[bytes, list[int]] = {}
    for line in shown.splitlines():
        key, value = line.split(b"\t")
        by_key.setdefault(key, []).append(int(value.split()[1]))
    assert sum(map(len, by_key.values())) == 5000
    # Records of one key are all in one partition, in the order they were sent.
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_bytes_are_unchanged(cli: Cli, orders: str) -> None:
    line = bytes(byte for byte in range(256) if byte not in b"\r\n")
    cli.ok("produce", orders, "-p", "0", stdin=line + b"\n")
    assert cli.ok("consume", orders, "--no-follow").output == line + b"\n"
    assert cli.ok("consume", orders, "--no-follow", "--format", "hex").output == line.hex().encode() + b"\n"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_acks_setting_stores_the_record(cli: Cli, orders: str, acks: str) -> None:
    cli.ok("produce", orders, "x", "--acks", acks, "-p", "0")
    deadline = time.monotonic() + 10
    while not consumed(cli, orders):
        assert time.monotonic() < deadline
    assert [record["value"] for record in consumed(cli, orders)] == ["x"]


def test_null_values_are_tombstones(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic, "-c", "cleanup.policy=compact")
    cli.ok("produce", topic, "-K", "=", "--null", "", stdin=b"a=1\na=\n")
    assert [(record["key"], record["value"]) for record in consumed(cli, topic)] == [("a", "1"), ("a", None)]
    # A compacted topic rejects records without a key.
    assert "--key" in cli.error_line("produce", topic, "no key")


def test_start_positions(cli: Cli, orders: str) -> None:
    start = 1_700_000_000_000
    for number in range(10):
        cli.ok("produce", orders, str(number), "-p", "0", "--timestamp", str(start + number * 1000))

    def values(*options: str) -> list[object]:
        return [record["value"] for record in consumed(cli, orders, *options)]

    assert values("--from", "7") == ["7", "8", "9"]
    assert values("--from", "-2") == ["8", "9"]
    assert values("--from", "-99", "-p", "0", "-n", "1") == ["0"]
    moment = datetime.fromtimestamp((start + 5500) / 1000, UTC).isoformat()
    assert values("--from", moment) == ["6", "7", "8", "9"]
    assert values("--from", "end") == []
    assert values("--from", "2199-01-01") == []
    assert values("-n", "3") == ["0", "1", "2"]
    assert values("-p", "1") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("consume", "{}", "-p", "2"), "has no partition 2, only partitions 0 to 1"),
        (("consume", "{}", "--from", "99", "-p", "0"), "OFFSET_OUT_OF_RANGE"),
        (("consume", "{}", "--from", "midnight"), "is not a position"),
        (("consume", "{}", "--from", "2026-99-99"), "is not a timestamp"),
        (("consume", "{}", "--show", "colour"), "unknown field"),
        (("consume", "{}x"), "Did you mean"),
        (("produce", "{}x", "value"), "Did you mean"),
        (("produce", "{}", "value", "-p", "5"), "has no partition 5"),
        (("produce", "{}", "v", "-k", "a", "-K", ":"), "mutually exclusive"),
        (("produce", "{}", "v", "-K", ":"), "no key separator"),
        (("produce", "{}", "v", "--acks", "2"), "--acks"),
        (("produce", "{}", "v", "--timestamp", "now"), "is not a timestamp"),
    ],
)
def test_errors_are_one_line(cli: Cli, orders: str, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.error_line(*(argument.replace("{}", orders) for argument in arguments))


def test_a_record_that_is_too_large_is_rejected_with_advice(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic, "-c", "max.message.bytes=1000")
    assert "max.message.bytes" in cli.error_line("produce", topic, "x" * 2000)


def test_follow_prints_new_records_until_interrupted(broker: NodeProcess, cli: Cli, orders: str) -> None:
    command = [sys.executable, "-m", "odradek", "consume", orders, "-b", broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            for number in range(3):
                cli.ok("produce", orders, f"value {number}")
                assert process.stdout.readline() == b"value %d\n" % number
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_closed_output_pipe_is_not_an_error(broker: NodeProcess, cli: Cli, orders: str) -> None:
    cli.ok("produce", orders, stdin=b"line\n" * 50_000)
    command = f"{sys.executable} -m odradek consume {orders} -b {broker.bootstrap} --no-follow | head -n 1"
    finished = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, timeout=60)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"line\n", b"")


def test_the_brokers_log_can_be_dumped(broker: NodeProcess, cli: Cli, orders: str) -> None:
    cli.ok("produce", orders, "first", "second", "-p", "0", "-k", "key", "-z", "zstd")
    directory = broker.log_dirs[0] / f"{orders}-0"
    entries = [
        json.loads(line) for line in cli.ok("log", "dump", str(directory), "--records", "--format", "json").lines
    ]
    (batch,) = [entry for entry in entries if entry["kind"] == "batch"]
    assert (batch["base_offset"], batch["last_offset"], batch["compression"]) == (0, 1, "zstd")
    assert batch["is_valid"] is True
    assert [record["value"] for record in batch["records"]] == ["first", "second"]
    assert b"first" in cli.ok("log", "dump", str(directory), "--records").output

    metadata = broker.log_dirs[0] / "__cluster_metadata-0"
    lines = cli.ok("log", "dump", *map(str, metadata.glob("*.log")), "--cluster-metadata-decoder").output
    assert f'"type": "TopicRecord", "name": "{orders}"'.encode() in lines
    assert b'"type": "LeaderChange' in lines


def test_corruption_in_a_file_is_found(tmp_path: Path, broker: NodeProcess, cli: Cli, orders: str) -> None:
    cli.ok("produce", orders, "value", "-p", "0")
    cli.ok("produce", orders, "value", "-p", "0")
    data = bytearray((broker.log_dirs[0] / f"{orders}-0" / "00000000000000000000.log").read_bytes())
    data[65] ^= 1
    corrupt = tmp_path / "00000000000000000000.log"
    corrupt.write_bytes(data[:-5])
    outcome = cli("log", "dump", str(corrupt), "--format", "json")
    assert outcome.code == 1
    first, second = map(json.loads, outcome.lines)
    assert (first["is_valid"], second["kind"]) == (False, "damage")
