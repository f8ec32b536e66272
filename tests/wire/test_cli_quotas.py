"""`odradek quota`."""

import pytest

from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], broker: NodeProcess) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


def test_quotas_are_set_listed_and_removed(cli: Cli) -> None:
    cli.ok("quota", "set", "--user", "bob", "--client-id", "app", "producer_byte_rate=1000", "request_percentage=12.5")
    cli.ok("quota", "set", "--user-defaults", "consumer_byte_rate=2000")
    outcome = cli.ok("quota", "set", "--ip", "10.0.0.1", "connection_creation_rate=5")
    assert outcome.messages.splitlines()[-1] == "Updated the quotas of address 10.0.0.1."
    listed = cli.ok("quota", "list", "--format", "json").json
    assert {"entity": {"user": None}, "limits": {"consumer_byte_rate": 2000.0}} in listed
    assert cli.ok("quota", "list", "--user", "bob", "--format", "json").json == [
        {
            "entity": {"client-id": "app", "user": "bob"},
            "limits": {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        }
    ]
    table = cli.ok("quota", "list").output.decode()
    assert ["bob", "app", "-", "producer_byte_rate", "1000"] in [line.split() for line in table.splitlines()]
    assert ["<default>", "-", "-", "consumer_byte_rate", "2000"] in [line.split() for line in table.splitlines()]
    cli.ok("quota", "remove", "--user", "bob", "--client-id", "app", "producer_byte_rate")
    assert cli.ok("quota", "list", "--user", "bob", "--format", "json").json[0]["limits"] == {
        "request_percentage": 12.5
    }
    for entity in (("--user", "bob", "--client-id", "app"), ("--user-defaults",), ("--ip", "10.0.0.1")):
        cli.ok("quota", "remove", *entity)
    assert cli.ok("quota", "list", "--user", "bob").messages.splitlines()[-1] == "No matching client quotas."


def test_mistakes_are_reported_in_one_line(cli: Cli) -> None:
    assert cli.error_line("quota", "set", "producer_byte_rate=1").startswith("Specify --user")
    assert "not both" in cli.error_line("quota", "set", "--user", "a", "--user-defaults", "producer_byte_rate=1")
    assert "not a number" in cli.error_line("quota", "set", "--user", "a", "producer_byte_rate=fast")
    assert "must be greater than 0" in cli.error_line("quota", "set", "--user", "a", "producer_byte_rate=0")
    assert "Invalid configuration key" in cli.error_line("quota", "set", "--ip", "::1", "producer_byte_rate=1")
    assert "cannot be combined" in cli.error_line("quota", "list", "--ip", "::1", "--user", "a")
    assert cli.error_line("quota", "remove", "--user", "Eve") == "No quotas of user Eve."
