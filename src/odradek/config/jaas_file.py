"""JAAS files: Kafka's users name one in KAFKA_OPTS, as -Djava.security.auth.login.config=FILE.

A context of the file applies where no `sasl.jaas.config` is given. Errors never contain a value.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from odradek.config.jaas import LOGIN_MODULES, JaasEntry, JaasError, Tokens, check_login_module, parse_entry

if TYPE_CHECKING:
    from odradek.config.providers import ProviderSources

OPTIONS: Final = "KAFKA_OPTS"
PROPERTY: Final = "java.security.auth.login.config"
CLIENT_CONTEXT: Final = "KafkaClient"
SERVER_CONTEXT: Final = "KafkaServer"

_DEFINITION: Final = re.compile(r"-D([^=]+)(?:=(.*))?", re.DOTALL)
# As in Java, ${{…}} stays as it is.
_VARIABLE: Final = re.compile(r"\$\{\{(?:.*?\}\}|.*)|\$\{([^}]*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginFile:
    path: str
    contexts: Mapping[str, tuple[JaasEntry, ...]] = field(default_factory=dict, repr=False)
    problem: str = ""
    """Why the file cannot be used. As in Kafka, that matters only if a context is needed."""

    def find(self, names: Iterable[str], mechanism: str) -> JaasEntry | None:
        """The login for the mechanism in the first of these contexts that exists. Raises JaasError."""
        if self.problem:
            raise JaasError(self.problem)
        name = next((one for one in names if self.contexts.get(one)), None)
        if name is None:
            return None
        for entry in self.contexts[name]:
            check_login_module(entry)
        found = next((one for one in self.contexts[name] if mechanism in LOGIN_MODULES[one.login_module]), None)
        if found is None:
            raise JaasError(f"context {name} of {self.path} has no login module for {mechanism}")
        return found


def server_contexts(listener_name: str) -> tuple[str, str]:
    return f"{listener_name.lower()}.{SERVER_CONTEXT}", SERVER_CONTEXT


def read_login_file(sources: "ProviderSources") -> LoginFile | None:
    """None: KAFKA_OPTS names no file."""
    properties = parse_properties_of_java(sources.environment.get(OPTIONS, ""))
    given = properties.get(PROPERTY)
    if given is None:
        return None
    # A second = replaces Java's own logins, which do not exist here.
    path = given.removeprefix("=")
    try:
        path = _path(_expand(path, properties))
        return LoginFile(path, parse_contexts(sources.read_file(path), properties))
    except JaasError as error:
        return LoginFile(path, problem=f"{path}: {error}")
    except OSError as error:
        return LoginFile(path, problem=f"cannot read {path}: {error.strerror or type(error).__name__}")
    except ValueError:
        return LoginFile(path, problem=f"cannot read {path}: it is not a small text file")


def parse_properties_of_java(options: str) -> dict[str, str]:
    """The system properties of a command line. As Kafka's scripts do, words are split at spaces, without quotes."""
    found = (_DEFINITION.fullmatch(word) for word in options.split())
    return {one[1]: one[2] or "" for one in found if one is not None}


def parse_contexts(text: str, properties: Mapping[str, str]) -> dict[str, tuple[JaasEntry, ...]]:
    """The logins of each context. Variables in values are Java's system properties. Raises JaasError."""

    def expand(name: str, value: str) -> str:
        expanded = _expand(value, properties)
        if value and not expanded:
            raise JaasError(f"the system property in {name[:200]} is empty")
        return expanded

    tokens = Tokens(text, is_file=True)
    contexts: dict[str, tuple[JaasEntry, ...]] = {}
    while (name := tokens.next()) is not None:
        if name.text is None:
            raise JaasError("expected the name of a context, as KafkaServer")
        if name.text in contexts:
            raise JaasError(f"context {name.text[:200]} occurs twice")
        tokens.expect("{", f"after {name.text[:200]}")
        entries = []
        while (token := tokens.next()) is not None and token.symbol != "}":
            entries.append(parse_entry(token, tokens, expand))
        if token is None:
            raise JaasError(f"context {name.text[:200]} does not end with }};")
        tokens.expect(";", f"after the context {name.text[:200]}")
        contexts[name.text] = tuple(entries)
    return contexts


def _expand(text: str, properties: Mapping[str, str]) -> str:
    def value(variable: re.Match[str]) -> str:
        name = variable[1]
        if name is None:
            return variable[0]
        if name == "/":
            return "/"
        if name not in properties:
            raise JaasError(f"the system property {name[:200]} is unknown; add -D{name[:200]}=… to {OPTIONS}")
        return properties[name]

    return _VARIABLE.sub(value, text)


def _path(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme == "file":
        return unquote(parts.path)
    if parts.netloc:
        raise JaasError(f"{PROPERTY} must name a file")
    return text
