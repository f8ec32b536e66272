"""A node and the command line with a JAAS file in KAFKA_OPTS, as Kafka's users have it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.cli_call import Cli
from tests.wire.secured_broker import PLAIN_MODULE, SCRAM_MODULE, SecuredBroker

FILE = f"""
KafkaServer {{
    {PLAIN_MODULE} required user_everywhere="of all listeners";
    {SCRAM_MODULE} required;
}};
clients.KafkaServer {{ {PLAIN_MODULE} required user_alice="of one listener"; }};
"""
CLIENT = 'KafkaClient {{ {module} required username="{user}" password="{password}"; }};'


class WithFile(SecuredBroker):
    """Without any inline config."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.properties = {name: text for name, text in self.properties.items() if "sasl.jaas.config" not in name}
        self.properties["listener.name.clients.sasl.enabled.mechanisms"] = "PLAIN"
        self.file = directory / "server jaas.conf"

    def environment(self) -> dict[str, str]:
        # Kafka's scripts split the options at spaces, so a path with a space needs the form of a URL.
        return {**super().environment(), "KAFKA_OPTS": f"-Djava.security.auth.login.config={self.file.as_uri()}"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithFile]:
    node = WithFile(tmp_path_factory.mktemp("node"))
    node.file.write_text(FILE)
    try:
        with pytest.MonkeyPatch.context() as patch:
            # `odradek format`, which runs in this process, checks the logins too.
            patch.setenv("KAFKA_OPTS", node.environment()["KAFKA_OPTS"])
            node.start()
        yield node
    finally:
        node.remove()


def test_node_and_command_line_log_in_with_contexts_of_a_file(
    node: WithFile, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    cli = Cli(monkeypatch, capfdbinary, node.sasl_bootstrap)
    file, properties = tmp_path / "jaas.conf", tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1G -Djava.security.auth.login.config={file}")

    def give(user: str, password: str) -> None:
        file.write_text(CLIENT.format(module=PLAIN_MODULE, user=user, password=password))

    command = ("topic", "list", "--command-config", str(properties))
    give("alice", "of one listener")
    cli.ok(*command)
    # The listener's own context replaces the other one.
    give("everywhere", "of all listeners")
    assert "Authentication failed" in cli.error_line(*command)
    file.unlink()
    error = cli.error_line(*command)
    assert f"sasl.jaas.config: cannot read {file}: No such file or directory" in error
    # A config in the file of properties comes first.
    login = f'{PLAIN_MODULE} required username="alice" password="of one listener";'
    properties.write_text(f"{properties.read_text()}sasl.jaas.config={login}\n")
    cli.ok(*command)
