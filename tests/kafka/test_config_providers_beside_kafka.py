"""Apache Kafka's config providers and Odradek's resolve the same variables to the same values."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.config.providers import resolve
from odradek.host.provider_sources import HostProviderSources
from tests.kafka.java_program import JavaProgram

PACKAGE = "org.apache.kafka.common.config.provider."
CLASSES = {"env": "EnvVarConfigProvider", "file": "FileConfigProvider", "dir": "DirectoryConfigProvider"}
CONFIGS = 400
FILES = {
    "a.properties": "password=hunter2\nempty=\nspaced : v a l u e \nlong=a\\\n   b\nescape=\\u00e9\\t\\\\\n"
    "nested=${env:ODRADEK_TEST_A}\n",
    "b.properties": "! comment\npassword hunter3\npassword=hunter4\nk\\:ey=colon\n",
    "token": "line\n",
    "crlf": "a\r\nb\r\n",
}
VARIABLES = {"ODRADEK_TEST_A": "alpha", "ODRADEK_TEST_B": "", "ODRADEK_OTHER": "other"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("secrets")
    (directory / "inner").mkdir()
    for name, text in FILES.items():
        (directory / name).write_bytes(text.encode())
        (directory / "inner" / name).write_bytes(f"inner{text}".encode())
    (directory / "link").symlink_to(directory / "token")
    return directory


@pytest.fixture(scope="module")
def kafkas_providers(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in VARIABLES.items():
            patched.setenv(name, value)
        with JavaProgram(apache_kafka_libs, "ConfigProviders") as program:
            yield program


def random_configs(rng: random.Random, directory: Path) -> dict[str, str]:
    names = rng.sample(sorted(CLASSES), rng.randrange(4))
    configs = {f"config.providers.{name}.class": PACKAGE + CLASSES[name] for name in names}
    if names:
        configs["config.providers"] = ",".join(names)
    if rng.random() < 0.3:
        configs["config.providers.env.param.allowlist.pattern"] = rng.choice(["ODRADEK_TEST_.*", "ODRADEK", ".*A"])
    for name in ("file", "dir"):
        if rng.random() < 0.3:
            allowed = rng.choice([f"{directory}/inner", f"{directory}", f"{directory}/inner,{directory}/token"])
            configs[f"config.providers.{name}.param.allowed.paths"] = allowed
    for number in range(rng.randrange(1, 5)):
        configs[f"key.{number}"] = "".join(random_part(rng, directory) for _ in range(rng.randrange(1, 4)))
    return configs


def random_part(rng: random.Random, directory: Path) -> str:
    path = rng.choice(["", "", "/inner", "/inner/..", "/none", "/./inner"])
    file = rng.choice([*FILES, "none"])
    key = rng.choice(["password", "empty", "spaced", "long", "escape", "nested", "k:ey", "none", ""])
    return rng.choice(
        [
            f"${{env:{rng.choice([*VARIABLES, 'ODRADEK_NONE'])}}}",
            f"${{env::{rng.choice([*VARIABLES])}}}",
            f"${{file:{directory}{path}/{file}:{key}}}",
            f"${{dir:{directory}{path}:{rng.choice([*FILES, 'link', 'inner', 'none', '../token', ''])}}}",
            f"${{file:{key}}}",
            "${vault:x:y}",
            rng.choice(["text", " ", "$", "${", "}", "${x}", "${}", "$1", "\\", "${:}", "${env}"]),
        ]
    )


def test_random_configs_are_resolved_alike(
    kafkas_providers: JavaProgram, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    rng = random.Random(21)
    resolved = 0
    for _ in range(CONFIGS):
        configs = random_configs(rng, directory)
        (line,) = kafkas_providers.request(json.dumps(configs))
        kafkas = json.loads(line)
        ours = resolve(configs, HostProviderSources())
        if "failed" in kafkas:
            assert ours.errors, configs
        elif ours.errors:
            # Kafka uses the text of a variable without a value: that is an error here.
            keys = {problem.key for problem in ours.errors}
            assert all("${" in kafkas[key] for key in keys), (configs, ours.errors)
            assert {key: text for key, text in ours.texts.items() if key not in keys} == {
                key: text for key, text in kafkas.items() if key not in keys
            }
        else:
            assert ours.texts == kafkas, configs
            resolved += bool(ours.resolved)
    assert resolved > CONFIGS / 10
