"""The file of `--command-config`: taken as Kafka's tools take it, or refused in one line that holds no secret."""

from pathlib import Path

import pytest

from odradek.cli.command_config import security_of_file
from odradek.cli.main import run
from odradek.client.security import NOTHING, Sasl
from odradek.text.errors import UserError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'sasl.jaas.config={SCRAM} required \\\n  username="anna" \\\n  password="hidden";\n'
_CONSOLE = pytest.mark.needs("nicegui")
_JOB = pytest.mark.needs("pyarrow")
WITH_SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def test_what_is_no_security_is_passed_over(file: Path) -> None:
    file.write_text("# nothing\nclient.id=me\nrequest.timeout.ms=5\n")
    assert security_of_file(file) == NOTHING
    file.write_text(f"{WITH_SASL}{JAAS}sasl.login.refresh.buffer.seconds=3\nssl.protocol=TLSv1.3\n")
    assert security_of_file(file).sasl == Sasl(mechanism="SCRAM-SHA-256", username="anna", password="hidden")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("client.id=me\nsecurity.protocl=SSL", 2, "security.protocl: not known here; did you mean security.protocol?"),
        ("security.protocol=SSL\nsasl.username=anna", 2, "write sasl.jaas.config instead"),
        ("security.protocol=SSL\nssl.engine.factory.class=Mine", 2, "not supported here: leave it out"),
        ("config.providers=file", 1, "write the values themselves"),
        (JAAS, 1, "sasl.jaas.config is of no use without security.protocol: write SSL or SASL_SSL"),
        (f"{WITH_SASL}sasl.jaas.config=hidden", 3, 'write it as …ScramLoginModule required username="…"'),
        (f"\n{WITH_SASL}", 2, "sasl.jaas.config: write it as"),
        (r"ssl.key.password=hidden\uhidden", 1, r"write \\ for one"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/not/there",
            3,
            "there is no file '/not/there'",
        ),
        ("security.protocol=SSL\nssl.truststore.certificates=hidden", 2, "it holds no PEM of certificates"),
        (
            "security.protocol=SSL\nssl.keystore.key=hidden\nssl.keystore.certificate.chain=hidden",
            3,
            "it holds no PEM of a certificate and its key, or ssl.key.password is not the key's",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_no_secret(file: Path, text: str, line: int, said: str) -> None:
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        security_of_file(file)
    told = str(refused.value)
    assert told.startswith(f"--command-config {file}:{line}: ")
    assert said in told
    assert "\n" not in told
    assert "hidden" not in told.removeprefix(f"--command-config {file}")


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "list"),
        pytest.param(("console",), marks=_CONSOLE),
        ("group", "list"),
        ("quorum", "status"),
        pytest.param(("job", "ingest", "orders", "table"), marks=_JOB),
        pytest.param(("job", "audit", "orders", "--against", "copy"), marks=_JOB),
        pytest.param(("job", "load", ".", "orders"), marks=_JOB),
        pytest.param(("job", "rewrite", "orders", "copy"), marks=_JOB),
        pytest.param(("job", "skew", "orders"), marks=_JOB),
    ],
)
def test_commands_refuse_it_before_they_ask(
    file: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    file.write_bytes(b"\xff\xfe")
    for named, said in ((file, "is no text"), (file.with_name("none"), "there is no")):
        assert run([*command, "--command-config", str(named)]) == 2
        (told,) = capsys.readouterr().err.splitlines()
        assert told.startswith("error: ") and said in told
