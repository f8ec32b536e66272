"""`odradek group describe` shows the recent rebalances, which the coordinator reports over HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.cli_call import Cli
from tests.wire.group_members import Members, members
from tests.wire.plain_requests import create_topic, until

PARTITIONS = 4


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    (port,) = free_ports(1)
    process = OdradekProcess(tmp_path_factory.mktemp("rebalances"), properties={"http.address": str(port)})
    try:
        yield process.start()
    finally:
        process.remove()


@pytest.fixture
def cli(node: OdradekProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, node.bootstrap)


def described(cli: Cli, group: str) -> Any:
    (found,) = cli.ok("group", "describe", group, "--format", "json").json
    return found


def test_rebalances_of_a_classic_group_have_cause_and_duration(node: OdradekProcess, cli: Cli, topic: str) -> None:
    with RawConnection(node.port) as connection:
        create_topic(connection, topic, partitions=PARTITIONS)
    with members(node.bootstrap, "readers", [topic], partitions=PARTITIONS, count=1) as first:
        until(lambda: described(cli, "readers")["state"] == "Stable", 30)
        (one,) = described(cli, "readers")["members"]
        begun = described(cli, "readers")["rebalances"]
        assert one["member"] in begun[-1]["cause"]
        assert begun[-1]["ended_ms"] >= begun[-1]["began_ms"]

        second = Members(node.bootstrap, "readers", [topic], 1, {})
        until(lambda: all(first.shares()) and all(second.shares()), 60)
        until(lambda: len(described(cli, "readers")["members"]) == 2, 30)
        (newcomer,) = {member["member"] for member in described(cli, "readers")["members"]} - {one["member"]}
        grown = described(cli, "readers")["rebalances"][len(begun) :]
        assert any(newcomer in rebalance["cause"] for rebalance in grown)

        second.leave()
        until(lambda: len(described(cli, "readers")["members"]) == 1, 30)
        until(lambda: newcomer in described(cli, "readers")["rebalances"][-1]["cause"], 30)
        shown = cli.ok("group", "describe", "readers").output.decode()
        assert "rebalance started" in shown
        assert newcomer in shown


def test_rebalances_of_a_consumer_group_are_shown(node: OdradekProcess, cli: Cli, topic: str) -> None:
    with RawConnection(node.port) as connection:
        create_topic(connection, topic, partitions=PARTITIONS)
    settings = {"group.protocol": "consumer"}
    with members(node.bootstrap, "new readers", [topic], partitions=PARTITIONS, count=1, settings=settings):
        until(lambda: described(cli, "new readers")["state"] == "Stable", 30)
        found = described(cli, "new readers")
        assert found["type"] == "consumer"
        (one,) = found["members"]
        assert found["rebalances"][-1]["cause"] == f"member {one['member']} has come"
        assert found["rebalances"][-1]["ended_ms"] is not None
