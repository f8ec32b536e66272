"""JAAS files: which context applies, what Java's parser accepts, and errors without values."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.jaas import JaasError
from odradek.config.jaas_file import LoginFile, parse_contexts, parse_properties_of_java, read_login_file
from odradek.config.node_config import ConfigErrors, NodeConfig
from odradek.config.sasl_config import read_login, read_sasl
from odradek.host.provider_sources import HostProviderSources
from tests.unit.config.test_sasl_checks import BASE, LOGIN, OF_BROKER, OF_CONTROLLER, PLAIN, SCRAM

FILE = f"""
/* The logins of all listeners. */
KafkaServer {{
    {SCRAM} required username="file" password="hidden-1";
    {PLAIN} required username="file" password="hidden-2" user_file="hidden-2";  // one for each mechanism
}};
controller.KafkaServer {{ {PLAIN} required username="own" password="hidden-3" user_own="hidden-3"; }};
KafkaClient {{ {PLAIN} REQUIRED username=client password="${{secret}}"; }};
Empty {{ }};
"""


class Sources(HostProviderSources):
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    @property
    def environment(self) -> Mapping[str, str]:
        return self._environment


def read(options: str) -> LoginFile | None:
    return read_login_file(Sources({"KAFKA_OPTS": options}))


def load(options: str, changes: Mapping[str, str | None]) -> NodeConfig:
    given = {name: text for name, text in ({**BASE, **changes}).items() if text is not None}
    text = "".join(f"{name}={text}\n" for name, text in given.items())
    return NodeConfig.load(text, "server.properties", sources=Sources({"KAFKA_OPTS": options}))


@pytest.fixture
def option(tmp_path: Path) -> str:
    file = tmp_path / "jaas.conf"
    file.write_text(FILE)
    return f"-Xmx1G -Dsecret=hidden-4 -Djava.security.auth.login.config={file}"


def login_of(config: NodeConfig, listener: str, mechanism: str = "PLAIN") -> str:
    return read_login(config.values, listener, mechanism, "sasl.mechanism", config.login_file).password


def test_precedence_is_that_of_kafka(option: str) -> None:
    inline = load(option, {})
    assert login_of(inline, "CONTROLLER") == login_of(inline, "SASL_PLAINTEXT") == "hidden-text"
    config = load(option, {OF_BROKER: None, OF_CONTROLLER: None})
    assert login_of(config, "CONTROLLER") == "hidden-3"
    assert login_of(config, "SASL_PLAINTEXT") == "hidden-2"
    assert login_of(config, "SASL_PLAINTEXT", "SCRAM-SHA-256") == "hidden-1"
    mechanism = read_sasl(config.values, "SASL_PLAINTEXT", config.login_file).mechanisms["PLAIN"]
    assert mechanism.login.users() == {"file": "hidden-2"}
    assert "hidden" not in repr(config.login_file)


def test_a_file_that_is_not_needed_may_be_missing() -> None:
    missing = "-Djava.security.auth.login.config=/not/there"
    assert login_of(load(missing, {}), "CONTROLLER") == "hidden-text"
    with pytest.raises(ConfigErrors, match=r"cannot read /not/there: No such file or directory"):
        load(missing, {OF_BROKER: None})


def test_client_context(option: str) -> None:
    file = read(option)
    assert file is not None
    login = file.find(["KafkaClient"], "PLAIN")
    assert login is not None
    assert login.options == {"username": "client", "password": "hidden-4"}
    assert file.find(["Empty"], "PLAIN") is None
    assert file.find(["Other"], "PLAIN") is None
    with pytest.raises(JaasError, match=r"context KafkaClient of .* has no login module for SCRAM-SHA-256"):
        file.find(["KafkaClient"], "SCRAM-SHA-256")


@pytest.mark.parametrize("form", ["{}", "={}", "file:{}", "file://{}"])
def test_forms_of_the_option(tmp_path: Path, form: str) -> None:
    (tmp_path / "a b.conf").write_text(FILE)
    path = tmp_path / "jaas.conf"
    path.write_text(FILE)
    file = read(f"-Djava.security.auth.login.config=/other -Djava.security.auth.login.config={form.format(path)}")
    assert file is not None and file.path == str(path)
    assert "Empty" in file.contexts or "secret is unknown" in file.problem
    assert read("") is None
    assert read("-Djava.security.auth=x") is None


def test_options_are_split_as_kafkas_scripts_do() -> None:
    assert parse_properties_of_java(" -Da=1 -Db -Dc=x=y\n-ea -Dd='e f' -Da=2") == {
        "a": "2",
        "b": "",
        "c": "x=y",
        "d": "'e",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("KafkaServer", "expected { after KafkaServer"),
        ("KafkaServer {", "does not end with"),
        (f"KafkaServer {{ {LOGIN} }}", "expected ; after the context KafkaServer"),
        (f"KafkaServer {{ {LOGIN} }}; KafkaServer {{ }};", "context KafkaServer occurs twice"),
        (f"KafkaServer {{ {LOGIN.rstrip(';')} }};", "no value for }|no value for an option"),
        (f"KafkaServer {{ {PLAIN} required password='hidden'; }};", "no value for password"),
        (f"KafkaServer {{ {PLAIN} required password=12345; }};", "no value for password"),
        (f'KafkaServer {{ {PLAIN} required password="${{a.b}}"; }};', "the system property a.b is unknown"),
        (f'KafkaServer {{ {PLAIN} required password="${{none}}"; }};', "the system property in password is empty"),
        ("# comment", "expected the name of a context"),
        ("KafkaServer { };;", "expected the name of a context"),
    ],
)
def test_errors_name_the_problem(text: str, problem: str) -> None:
    with pytest.raises(JaasError, match=problem) as failure:
        parse_contexts(text, {"none": ""})
    assert "\n" not in str(failure.value)
    assert "hidden" not in str(failure.value) and "12345" not in str(failure.value)


def test_unknown_login_modules_are_rejected_by_name(tmp_path: Path) -> None:
    file = LoginFile("f", parse_contexts(f"KafkaServer {{ {LOGIN} x.Mine optional; }};", {}))
    with pytest.raises(JaasError, match=r"cannot load the login module x.Mine; use Kafka's PlainLoginModule or"):
        file.find(["KafkaServer"], "PLAIN")


def test_variables() -> None:
    text = 'A { M required a="${x}${/}${y}" b="${{x}}" c="${x" d="${{x" e="" f="${{a}}${y}"; };'
    (entry,) = parse_contexts(text, {"x": "1", "y": "${x}"})["A"]
    assert entry.options == {"a": "1/${x}", "b": "${{x}}", "c": "${x", "d": "${{x", "e": "", "f": "${{a}}${x}"}


@given(st.text(alphabet="A{};=\"' \n/*-$_.1\\#x"))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(JaasError):
        parse_contexts(text, {})
