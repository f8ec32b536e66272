"""Reading the `--command-config` file: errors are one line and never contain a secret."""

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
PROVIDER = "org.apache.kafka.common.config.provider."
FILE_PROVIDER = f"config.providers=file\nconfig.providers.file.class={PROVIDER}FileConfigProvider\n"
ENV_PROVIDER = f"config.providers=env\nconfig.providers.env.class={PROVIDER}EnvVarConfigProvider\n"
WITH_SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def test_other_properties_are_ignored(file: Path) -> None:
    file.write_text("# nothing\nclient.id=me\nrequest.timeout.ms=5\n")
    assert security_of_file(file) == NOTHING
    file.write_text(f"{WITH_SASL}{JAAS}sasl.login.refresh.buffer.seconds=3\nssl.protocol=TLSv1.3\n")
    assert security_of_file(file).sasl == Sasl(mechanism="SCRAM-SHA-256", username="anna", password="hidden")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (
            "client.id=me\nsecurity.protocl=SSL",
            2,
            "security.protocl: unknown property. Did you mean security.protocol?",
        ),
        ("security.protocol=SSL\nsasl.username=anna", 2, "Use sasl.jaas.config with username and password."),
        ("security.protocol=SSL\nssl.engine.factory.class=Mine", 2, "not supported. Remove it."),
        (
            "config.providers=file",
            1,
            "config.providers: provider 'file' has no class; set config.providers.file.class=",
        ),
        (f"{FILE_PROVIDER}ssl.key.password=${{file:/not/there:key}}", 3, "cannot read '/not/there': No such file"),
        (f"{ENV_PROVIDER}security.protocol=${{env:SECRET}}", 3, "unknown protocol '[hidden]'. Choose from"),
        (JAAS, 1, "sasl.jaas.config has no effect without security.protocol. Set security.protocol to SSL or"),
        (f"{WITH_SASL}sasl.jaas.config=hidden", 3, 'Expected: …ScramLoginModule required username="…"'),
        (f"\n{WITH_SASL}", 2, "sasl.jaas.config: missing. Expected:"),
        (r"ssl.key.password=hidden\uhidden", 1, r"Write \\ for a backslash."),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/not/there",
            3,
            "file not found: '/not/there'",
        ),
        ("security.protocol=SSL\nssl.truststore.certificates=hidden", 2, "contains no PEM certificates"),
        (
            "security.protocol=SSL\nssl.keystore.key=hidden\nssl.keystore.certificate.chain=hidden",
            3,
            "contains no PEM certificate with its private key, or ssl.key.password is wrong",
        ),
    ],
)
def test_errors_name_the_line_and_contain_no_secret(
    file: Path, text: str, line: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "swordfish")
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        security_of_file(file)
    message = str(caught.value)
    assert message.startswith(f"--command-config {file}:{line}: ")
    assert expected in message
    assert "\n" not in message
    assert "hidden" not in message.removeprefix(f"--command-config {file}").replace("[hidden]", "")
    assert "swordfish" not in message.lower()


def test_config_providers_supply_the_password(file: Path) -> None:
    (file.parent / "secrets.properties").write_text("password=swordfish\n")
    variable = f"${{file:{file.parent}/secrets.properties:password}}"
    jaas = f'sasl.jaas.config={SCRAM} required username="anna" password="{variable}";'
    file.write_text(f"{FILE_PROVIDER}{WITH_SASL}{jaas}\n")
    assert security_of_file(file).sasl == Sasl(mechanism="SCRAM-SHA-256", username="anna", password="swordfish")


def test_a_variable_of_an_undeclared_provider_is_a_warning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f'{WITH_SASL}sasl.jaas.config={SCRAM} required username="anna" password="${{env:SECRET}}";\n')
    found = security_of_file(file).sasl
    assert found is not None and found.password == "${env:SECRET}"
    assert "a variable of config provider 'env' is not replaced; set config.providers=env" in capsys.readouterr().err


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
def test_commands_reject_an_invalid_file_before_connecting(
    file: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    file.write_bytes(b"\xff\xfe")
    for path, expected in ((file, "is not a text file"), (file.with_name("none"), "File not found")):
        assert run([*command, "--command-config", str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and expected in line
