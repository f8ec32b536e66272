"""kcat, the command-line client."""

import json
import subprocess
from collections.abc import Sequence

import pytest

from tests.node_process import NODE_ID, NodeProcess

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Kcat:
    def __init__(self, program: str, broker: NodeProcess) -> None:
        self._command = [program, "-b", broker.bootstrap]

    def __call__(self, *arguments: str, lines: Sequence[str] = ()) -> str:
        result = subprocess.run(
            [*self._command, *arguments],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def read(self, topic: str, *arguments: str) -> list[str]:
        """Reads from the beginning (or as the arguments say) to the current end."""
        return self("-C", "-t", topic, "-p", "0", "-e", "-q", *(arguments or ("-o", "beginning"))).splitlines()


@pytest.fixture
def run(kcat: str, broker: NodeProcess) -> Kcat:
    return Kcat(kcat, broker)


@pytest.mark.parametrize("codec", CODECS)
def test_producing_and_consuming(run: Kcat, topic: str, codec: str) -> None:
    lines = [f"line {number}" for number in range(100)]
    run("-P", "-t", topic, "-p", "0", "-z", codec, lines=lines)
    assert run.read(topic) == lines


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_acks(run: Kcat, topic: str, acks: str) -> None:
    run("-P", "-t", topic, "-p", "0", "-X", f"acks={acks}", lines=["one", "two"])
    assert run.read(topic) == ["one", "two"]


def test_keys_headers_and_offsets(run: Kcat, topic: str) -> None:
    run("-P", "-t", topic, "-p", "0", "-K", ":", "-H", "name=value", lines=["key1:one", "key2:two", "key3:three"])
    assert run.read(topic, "-o", "1", "-f", "%o %k %s %h\\n") == ["1 key2 two name=value", "2 key3 three name=value"]
    assert run.read(topic, "-o", "-1", "-f", "%s\\n") == ["three"]


def test_idempotent_producer(run: Kcat, topic: str) -> None:
    lines = [str(number) for number in range(1000)]
    run("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", lines=lines)
    assert run.read(topic) == lines


def test_listing(run: Kcat, broker: NodeProcess, topic: str) -> None:
    run("-P", "-t", topic, lines=["v"])
    metadata = json.loads(run("-L", "-J", "-t", topic))
    assert metadata["brokers"] == [{"id": NODE_ID, "name": broker.bootstrap}]
    (listed,) = metadata["topics"]
    assert [(partition["partition"], partition["leader"]) for partition in listed["partitions"]] == [(0, NODE_ID)]


def test_querying_offsets_by_time(run: Kcat, topic: str) -> None:
    run("-P", "-t", topic, "-p", "0", lines=["v"] * 3)
    assert run("-Q", "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]
    assert run("-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "3"]
