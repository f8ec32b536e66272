"""Apache Kafka's JaasContext and Odradek find the same login modules in the same inline configs and JAAS files."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.config.jaas import JaasEntry, JaasError, parse_entries
from odradek.config.jaas_file import CLIENT_CONTEXT, parse_contexts, server_contexts
from tests.kafka.java_program import JavaProgram

pytestmark = pytest.mark.tier("proof")

TEXTS = 1500
LISTENER = "Clients"
CONTEXTS = ("KafkaServer", "clients.KafkaServer", "Clients.KafkaServer", "KafkaClient", '"KafkaServer"', "Other")
VALUES = (
    *(
        "word",
        '"a b"',
        '""',
        "'single'",
        '"x\\"y"',
        '"\\t\\101\\08\\777"',
        '"cut',
        "1",
        "-1",
        "a-1",
        "1a",
        "$a_b",
        "a*b",
    ),
    *('"${defined}"', '"${undefined}"', '"${empty}"', '"a${empty}"', '"${{defined}}"', '"${/}${defined"', '"${{x"'),
    *('"semi;colon"', "/* c */ late", "// c\n late", "é", '"é"', "=", "x.y", '"\\q"', "a/b"),
)


@pytest.fixture(scope="module")
def kafka(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "LoginContexts") as program:
        yield program


def usually(rng: random.Random, usual: str, *others: str) -> str:
    return usual if rng.random() < 0.85 else rng.choice(others)


def random_entry(rng: random.Random) -> str:
    module = usually(rng, "a.b.Module", '"a.Module"', "1", "'M'", "*.M")
    flag = usually(
        rng, rng.choice(["required", "REQUIRED", "Sufficient", "optional"]), "needed", '"requisite"', "'required'"
    )
    options = " ".join(random_option(rng) for _ in range(rng.randrange(3)))
    return f"{module} {flag} {options}{usually(rng, ';', '', ';', ';;')}"


def random_option(rng: random.Random) -> str:
    name = usually(rng, rng.choice(["name", "user_a", "k-1"]), "1", "*k", "ü")
    return name + usually(rng, "=", " = ", "=\n", " ", "==") + usually(rng, '"value"', *VALUES, *VALUES)


def random_file(rng: random.Random) -> str:
    contexts = rng.sample(CONTEXTS, rng.randrange(1, 4))
    if rng.random() < 0.05:
        contexts.append(contexts[0])
    return "\n".join(
        f"{name} {usually(rng, '{', '/* { */ {', '')}"
        + " ".join(random_entry(rng) for _ in range(rng.choice([0, 1, 1, 1, 2])))
        + usually(rng, "};", "} ;", "}; // end", "}", "};;")
        for name in contexts
    )


def ours_of(inline: str | None, file: str | None, listener: str | None) -> Any:
    try:
        if inline is not None:
            entries = parse_entries(inline)
            return as_json(entries) if len(entries) == 1 else "failed"
        contexts = parse_contexts(file or "", {"defined": "value", "empty": ""})
    except JaasError:
        return "failed"
    names = (CLIENT_CONTEXT,) if listener is None else server_contexts(listener)
    return next((as_json(contexts[name]) for name in names if contexts.get(name)), "failed")


def as_json(entries: list[JaasEntry] | tuple[JaasEntry, ...]) -> list[dict[str, Any]]:
    return [{"module": one.login_module, "options": dict(one.options)} for one in entries]


def test_random_logins_are_found_alike(kafka: JavaProgram, tmp_path: Path) -> None:
    rng = random.Random(21)
    path = tmp_path / "jaas.conf"
    found = dict.fromkeys(("inline", "file"), 0)
    for _ in range(TEXTS):
        inline = random_entry(rng) + rng.choice(["", "", "", random_entry(rng)]) if rng.random() < 0.4 else None
        file = random_file(rng) if inline is None or rng.random() < 0.5 else None
        listener = rng.choice([LISTENER, LISTENER, None])
        if file is not None:
            path.write_text(file)
        request = {"inline": inline, "file": None if file is None else str(path), "listener": listener}
        (line,) = kafka.request(json.dumps(request))
        theirs, ours = json.loads(line), ours_of(inline, file, listener)
        assert ours == theirs, (inline, file, listener)
        found["inline" if inline is not None else "file"] += theirs != "failed"
    assert min(found.values()) > TEXTS / 20, found
