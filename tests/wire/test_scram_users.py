"""SCRAM users: Kafka's own tool, confluent-kafka's AdminClient and the command line see and change the same ones."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.kafka.apache_kafka import KafkaTools, ToolFailed
from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli
from tests.wire.plain_requests import until

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
TIMEOUT_S = 20

_numbers = itertools.count(1)


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    monkeypatch.delenv("ODRADEK_PASSWORD", raising=False)
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


@pytest.fixture
def admin(broker: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def user(cli: Cli) -> Iterator[str]:
    """A user name that only this test uses."""
    name = f"user-{next(_numbers)}"
    yield name
    cli("user", "remove", name)


def described(admin: AdminClient, user: str) -> dict[str, int] | None:
    """Iterations by mechanism; None: no such user."""
    future = admin.describe_user_scram_credentials([user])[user]
    try:
        found = future.result(TIMEOUT_S)
    except KafkaException as error:
        assert error.args[0].name() == "RESOURCE_NOT_FOUND"
        return None
    return {one.mechanism.name: one.iterations for one in found.scram_credential_infos}


def alter(admin: AdminClient, *alterations: UserScramCredentialAlteration) -> dict[str, str | None]:
    """The name of each user's error."""
    found = {}
    for user, future in admin.alter_user_scram_credentials(list(alterations)).items():
        try:
            future.result(TIMEOUT_S)
            found[user] = None
        except KafkaException as error:
            found[user] = error.args[0].name()
    return found


def upsertion(user: str, mechanism: Any = SHA_256, iterations: int = 4096) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, iterations), b"secret", b"salt")


def test_admin_client_changes_users(broker: NodeProcess, admin: AdminClient, user: str) -> None:
    assert described(admin, user) is None
    assert alter(admin, upsertion(user)) == {user: None}
    until(lambda: described(admin, user) == {"SCRAM_SHA_256": 4096})
    assert alter(admin, upsertion(user, SHA_512, 8192)) == {user: None}
    until(lambda: described(admin, user) == {"SCRAM_SHA_256": 4096, "SCRAM_SHA_512": 8192})
    every = admin.describe_user_scram_credentials().result(TIMEOUT_S)
    assert user in every
    assert alter(admin, UserScramCredentialDeletion(user, SHA_256)) == {user: None}
    until(lambda: described(admin, user) == {"SCRAM_SHA_512": 8192})


def test_admin_client_receives_the_errors_of_each_user(broker: NodeProcess, admin: AdminClient, user: str) -> None:
    few, missing = f"{user}-few", f"{user}-missing"
    result = alter(
        admin,
        upsertion(user),
        upsertion(few, iterations=4095),
        upsertion(f"{user}-many", iterations=16385),
        UserScramCredentialDeletion(missing, SHA_512),
    )
    assert result == {
        user: None,
        few: "UNACCEPTABLE_CREDENTIAL",
        f"{user}-many": "UNACCEPTABLE_CREDENTIAL",
        missing: "RESOURCE_NOT_FOUND",
    }
    until(lambda: described(admin, user) == {"SCRAM_SHA_256": 4096})
    twice = alter(admin, upsertion(user, SHA_256), upsertion(user, SHA_512))
    assert twice == {user: "DUPLICATE_RESOURCE"}


def test_kafka_configs_changes_users(tools: KafkaTools, cli: Cli, user: str) -> None:
    about = ("--entity-type", "users", "--entity-name", user)
    both = "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]"
    with pytest.raises(ToolFailed, match="DuplicateResourceException"):
        tools.configs("--alter", *about, "--add-config", both)
    tools.configs("--alter", *about, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    until(lambda: "SCRAM-SHA-256=iterations=8192" in tools.configs("--describe", *about))
    assert cli.ok("user", "list", user, "--format", "json").json == [
        {"user": user, "mechanism": "SCRAM-SHA-256", "iterations": 8192}
    ]
    tools.configs("--alter", *about, "--delete-config", "SCRAM-SHA-256")
    until(lambda: "SCRAM-SHA-256" not in tools.configs("--describe", *about))
    with pytest.raises(ToolFailed, match="credential that does not exist"):
        tools.configs("--alter", *about, "--delete-config", "SCRAM-SHA-256")


def test_command_line_adds_and_removes_users(
    admin: AdminClient, cli: Cli, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("tops3cret\n")
    added = cli.ok("user", "add", user, "--password-file", str(file))
    assert added.messages == f"Added user {user} for SCRAM-SHA-512.\n"
    until(lambda: described(admin, user) == {"SCRAM_SHA_512": 4096})
    changed = cli.ok("user", "add", user, "--password-file", "-", "--iterations", "8192", stdin=b"other")
    assert changed.messages == f"Changed the password of user {user} for SCRAM-SHA-512.\n"
    monkeypatch.setenv("ODRADEK_PASSWORD", "from the environment")
    cli.ok("user", "add", user, "--mechanism", "scram-sha-256")
    until(lambda: described(admin, user) == {"SCRAM_SHA_256": 4096, "SCRAM_SHA_512": 8192})
    shown = cli.ok("user", "list", user).output.decode()
    assert "SCRAM-SHA-256" in shown
    assert "8192" in shown
    cli.ok("user", "remove", user, "--mechanism", "SCRAM-SHA-512")
    until(lambda: described(admin, user) == {"SCRAM_SHA_256": 4096})
    assert "has no credential for SCRAM-SHA-512, only for SCRAM-SHA-256" in cli.error_line(
        "user", "remove", user, "--mechanism", "SCRAM-SHA-512"
    )
    cli.ok("user", "add", user)
    until(lambda: described(admin, user) == {"SCRAM_SHA_256": 4096, "SCRAM_SHA_512": 4096})
    removed = cli.ok("user", "remove", user)
    assert removed.messages == f"Removed user {user} for SCRAM-SHA-256, SCRAM-SHA-512.\n"
    until(lambda: described(admin, user) is None)


def test_command_line_errors(cli: Cli, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No password. Use --password-file" in cli.error_line("user", "add", user)
    assert "The password is empty" in cli.error_line("user", "add", user, "--password-file", "-", stdin=b"\n")
    assert "File not found: '/no/such'" in cli.error_line("user", "add", user, "--password-file", "/no/such")
    assert "unknown value 'PLAIN'" in cli.error_line("user", "add", user, "--mechanism", "PLAIN")
    assert "The user name is empty" in cli.error_line("user", "add", "")
    assert f"User {user!r} does not exist" in cli.error_line("user", "remove", user)
    assert f"User {user!r} does not exist" in cli.error_line("user", "list", user)
    monkeypatch.setenv("ODRADEK_PASSWORD", "secret")
    assert "--iterations" in cli.error_line("user", "add", user, "--iterations", "100")
    cli.ok("user", "add", user)
    assert f"Did you mean {user!r}?" in cli.error_line("user", "remove", f"{user}x")
