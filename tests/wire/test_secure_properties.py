"""The server.properties of `docs/how-to/secure-a-cluster.md`, with the guide's commands and secrets from providers."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from odradek.cli.main import run
from tests.node_process import free_ports
from tests.wire.up_process import ODRADEK, call

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-a-cluster.md"
PROVIDERS = """\
config.providers=file,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths={directory}
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""
CLIENT = """\
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="${{env:KAFKA_USER}}" password="${{file:{directory}/secrets.properties:password}}";
ssl.truststore.type=PEM
ssl.truststore.location={directory}/ca.pem
"""


def block(containing: str) -> str:
    """The properties of the guide with this text."""
    blocks = re.findall(r"```properties\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return next(one for one in blocks if containing in one)


def node_properties(directory: Path, ports: list[int]) -> str:
    text = block("inter.broker.listener.name").replace("kafka-a.example.com", "127.0.0.1")
    for documented, port in zip((":9092", ":9094", ":9093"), ports, strict=True):
        text = text.replace(documented, f":{port}")
    text = text.replace("//:", "//127.0.0.1:").replace("/etc/kafka", str(directory))
    return (
        f"{PROVIDERS.format(directory=directory)}{text}process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[2]}\nlog.dirs={directory}/data\n"
        f"offsets.topic.replication.factor=1\nbroker.rack=${{file:{directory}/secrets.properties:rack}}\n"
        f"delegation.token.secret.key=${{file:{directory}/secrets.properties:password}}\n"
    )


def test_a_node_with_the_properties_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_USER", "admin")
    assert run(["cert", "ca", "--name", "Example CA"]) == 0
    assert run(["cert", "issue", "CN=kafka-a", "--host", "localhost", "--host", "127.0.0.1"]) == 0
    (tmp_path / "secrets.properties").write_text("password=swordfish\nrack=r1\n")
    (tmp_path / "client.properties").write_text((PROVIDERS + CLIENT).format(directory=tmp_path))
    properties = tmp_path / "server.properties"
    ports = free_ports(3)
    properties.write_text(node_properties(tmp_path, ports))
    credential = "SCRAM-SHA-512=[name=admin,password=swordfish]"
    formatting = ["format", "--cluster-id", "h8Tc4zWgQHSZBhDwgfSGbw", "--config", str(properties), "--standalone"]
    assert run([*formatting, "--add-scram", credential]) == 0
    capsys.readouterr()
    secured = ("-b", f"127.0.0.1:{ports[0]}", "--command-config", str(tmp_path / "client.properties"))
    with subprocess.Popen(
        [*ODRADEK, "start", str(properties)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline().startswith("ready")
            created = call("topic", "create", "events", *secured)
            assert created.returncode == 0, created.stderr
            described = call("config", "get", "--broker", "1", *secured, "--format", "json")
            values = {one["key"]: one["value"] for one in json.loads(described.stdout)}
            assert values["broker.rack"] == "r1"
            assert values["delegation.token.secret.key"] is None
            assert "swordfish" not in described.stdout
        finally:
            node.terminate()
            _, errors = node.communicate(timeout=60)
    assert "has no effect" not in errors
    assert "swordfish" not in errors
