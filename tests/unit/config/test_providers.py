"""Config providers: `${provider:[path:]key}` in a properties file, as Kafka's ConfigTransformer resolves it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from odradek.config.levels import describe_broker
from odradek.config.node_config import ConfigErrors, NodeConfig
from odradek.config.providers import Resolution, resolve

PACKAGE = "org.apache.kafka.common.config.provider."
DECLARED = {
    "config.providers": "env,file,dir",
    "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
}
PREAMBLE = "".join(f"{key}={value}\n" for key, value in DECLARED.items())
NODE = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
"""


@dataclass
class Sources:
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def exists(self, path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in self.files)

    def read_file(self, path: str) -> str:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory", path) from None


SOURCES = Sources(
    {"PASSWORD": "swordfish", "EMPTY": "", "NESTED": "${env:PASSWORD}"},
    {
        "/secrets/db.properties": "# comment\npassword = hunter2\nhost: example\nlong=a\\\n  b\n",
        "/secrets/token": "abc\n",
        "/other/token": "xyz",
    },
)


def value(text: str, **more: str) -> str:
    resolution = resolve_texts({"key": text, **more})
    assert resolution.errors == ()
    return resolution.texts["key"]


def error(text: str, **more: str) -> str:
    (problem,) = resolve_texts({"key": text, **more}).errors
    assert problem.key == "key"
    return problem.message


def resolve_texts(texts: Mapping[str, str]) -> Resolution:
    return resolve({**DECLARED, **{key.replace("__", "."): text for key, text in texts.items()}}, SOURCES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${env:PASSWORD}", "swordfish"),
        ("${env::PASSWORD}", "swordfish"),
        ('x="${env:PASSWORD}" y=${file:/secrets/db.properties:host};', 'x="swordfish" y=example;'),
        ("${env:EMPTY}", ""),
        ("${file:/secrets/db.properties:password}", "hunter2"),
        ("${file:/secrets/db.properties:long}", "ab"),
        # The whole file, including its line break.
        ("${dir:/secrets:token}", "abc\n"),
        # A provider's value is not resolved again.
        ("${env:NESTED}", "${env:PASSWORD}"),
        ("$env:PASSWORD ${PASSWORD} $1", "$env:PASSWORD ${PASSWORD} $1"),
        ("${vault:PASSWORD}", "${vault:PASSWORD}"),
        ("${vault:PASSWORD}${env:PASSWORD}", "${vault:PASSWORD}swordfish"),
    ],
)  # fmt: skip
def test_variables_are_replaced(text: str, expected: str) -> None:
    assert value(text) == expected


def test_without_a_declaration_nothing_is_replaced_and_usual_names_are_a_warning() -> None:
    resolution = resolve({"a": "${env:PASSWORD}", "b": "${vault:x}"}, SOURCES)
    assert resolution.texts == {"a": "${env:PASSWORD}", "b": "${vault:x}"}
    (warning,) = resolution.warnings
    assert warning.message == (
        "a: a variable of config provider 'env' is not replaced; set config.providers=env and "
        f"config.providers.env.class={PACKAGE}EnvVarConfigProvider"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${env:MISSING}", "key: config provider 'env' found no environment variable 'MISSING'"),
        ("${env:/path:PASSWORD}", "key: config provider 'env' accepts no path, but the path is '/path'"),
        ("${file:/secrets/db.properties:user}", "found no key 'user' in '/secrets/db.properties'"),
        ("${file:/none:user}", "cannot read '/none': No such file or directory"),
        ("${file:user}", "key: config provider 'file' needs a path"),
        ("${dir:/secrets:none}", "cannot read '/secrets/none': No such file or directory"),
        ("${dir:/secrets:../other/token}", "needs the name of a file in '/secrets', not '../other/token'"),
    ],
)
def test_a_variable_without_a_value_is_an_error_that_names_config_provider_and_path(text: str, expected: str) -> None:
    message = error(text)
    assert expected in message
    assert "swordfish" not in message and "hunter2" not in message


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("/secrets", True),
        ("/secrets/./", True),
        ("/other/../secrets", True),
        ("/other", False),
        ("/secrets/../other", False),
    ],
)
def test_allowed_paths_restrict_directories(path: str, is_allowed: bool) -> None:
    more = {"config__providers__dir__param__allowed__paths": "/secrets"}
    if is_allowed:
        assert value(f"${{dir:{path}:token}}", **more) == "abc\n"
    else:
        assert "which is outside allowed.paths" in error(f"${{dir:{path}:token}}", **more)


def test_allowed_paths_match_whole_names() -> None:
    sources = Sources(files={"/secrets/a": "", "/secrets-of-others/token": "xyz"})
    texts = {
        **DECLARED,
        "config.providers.dir.param.allowed.paths": "/secrets",
        "key": "${dir:/secrets-of-others:token}",
    }
    (problem,) = resolve(texts, sources).errors
    assert "outside allowed.paths" in problem.message


def test_the_allowlist_pattern_must_match_the_whole_name() -> None:
    pattern = {"config__providers__env__param__allowlist__pattern": "PASS"}
    assert "allowlist.pattern does not match" in error("${env:PASSWORD}", **pattern)
    pattern = {"config__providers__env__param__allowlist__pattern": "PASS.*"}
    assert value("${env:PASSWORD}", **pattern) == "swordfish"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"config.providers": "env"}, "config.providers: provider 'env' has no class; set config.providers.env.class="),
        (
            {"config.providers": "v", "config.providers.v.class": "com.example.Vault"},
            "config.providers.v.class: cannot load the Java class com.example.Vault; use one of EnvVarConfigProvider",
        ),
        (
            {**DECLARED, "config.providers.file.param.allowed.paths": "relative"},
            "config.providers.file.param.allowed.paths: 'relative' is not an absolute path",
        ),
        ({**DECLARED, "config.providers.file.param.allowed.paths": "/none"}, "'/none' does not exist"),
        ({**DECLARED, "config.providers.env.param.allowlist.pattern": "("}, "invalid regular expression"),
    ],
)
def test_wrong_declarations_are_errors(texts: dict[str, str], expected: str) -> None:
    (problem,) = resolve(texts, SOURCES).errors
    assert expected in problem.message


def load(text: str) -> NodeConfig:
    return NodeConfig.load(f"{NODE}{PREAMBLE}{text}", "server.properties", sources=SOURCES)


def test_server_properties_are_resolved_and_secrets_are_not_described() -> None:
    config = load(
        "ssl.key.password=${env:PASSWORD}\nlistener.name.x.ssl.key.password=${env:PASSWORD}\nzzz=${env:PASSWORD}\n"
    )
    assert config.values["ssl.key.password"] == "swordfish"
    assert not any("config.providers" in warning for warning in config.warnings)
    assert not any("swordfish" in warning for warning in config.warnings)
    assert "swordfish" not in repr(describe_broker(config))
    assert "swordfish" not in repr(config)


@pytest.mark.parametrize(
    "text",
    [
        "num.partitions=${env:PASSWORD}",
        "max.connections.per.ip.overrides=a,${env:PASSWORD}",
        "advertised.listeners=PLAINTEXT://${env:PASSWORD}",
        "inter.broker.listener.name=${env:PASSWORD}",
        "replica.selector.class=x${env:PASSWORD}",
    ],
)
def test_errors_of_a_config_do_not_show_what_a_provider_returned(text: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(text)
    assert "swordfish" not in str(caught.value).lower()
    assert text.partition("=")[0] in str(caught.value)


def test_unresolved_variables_are_errors_with_their_line() -> None:
    with pytest.raises(ConfigErrors) as caught:
        load("ssl.key.password=${env:MISSING}\n")
    assert caught.value.errors == (
        "server.properties:10: ssl.key.password: config provider 'env' found no environment variable 'MISSING'",
    )


def test_without_sources_a_declaration_is_an_error() -> None:
    with pytest.raises(ConfigErrors):
        NodeConfig.load(f"{NODE}{PREAMBLE}", "server.properties")
