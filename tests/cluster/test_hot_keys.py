"""A running broker reports the hot keys of a partition."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.metrics_scrape import get
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.wire.cli_call import Cli
from tests.wire.plain_requests import until

# A key can contain any bytes.
STRANGE = b"\xff\x1b[31m"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    (port,) = free_ports(1)
    node = OdradekProcess(tmp_path, properties={"http.address": str(port), "hot.keys.enable": "true"})
    node.start()
    yield node
    node.remove()


@pytest.mark.parametrize("compression", [pytest.param("none", marks=pytest.mark.tier("proof")), "zstd"])
def test_hot_keys_of_a_partition_are_reported(
    node: OdradekProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], compression: str
) -> None:
    port = int(node.properties["http.address"])
    producer = Producer({"bootstrap.servers": node.bootstrap, "compression.type": compression, "linger.ms": 5})

    def hot_keys() -> dict[str, float]:
        for number in range(2000):
            if number % 2:
                producer.produce("orders", b"x" * 100, b"customer-7")
            elif number % 5 == 0:
                producer.produce("orders", b"x" * 100, STRANGE)
            else:
                producer.produce("orders", b"x" * 100, b"%d" % number)
        producer.flush(10)
        partitions = json.loads(get(port, "/v1/traffic").body)["partitions"]
        found = [one["hot_keys"]["by_records"] for one in partitions if "hot_keys" in one]
        return {one.get("key") or one["key_base64"]: one["share"] for keys in found for one in keys}

    until(lambda: "customer-7" in hot_keys(), 20, what="hot keys")
    shares = hot_keys()
    assert 0.4 < shares["customer-7"] < 0.65
    assert 0.05 < shares["/xtbMzFt"] < 0.25

    cli = Cli(monkeypatch, capfdbinary, node.bootstrap)
    (hottest,) = cli.ok("cluster", "balance", "--format", "json").json["hottest"]
    assert hottest["hot_keys"][0]["key"] == "customer-7"
    shown = cli.ok("cluster", "balance").output
    assert b"customer-7" in shown
    assert b"\x1b[31m" not in shown
