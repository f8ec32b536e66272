"""Resolves `${provider:[path:]key}` in the values of a properties file with Kafka's config providers.

Only providers that `config.providers` declares are used, as in Kafka. Files and the environment are read through
`ProviderSources`. Messages name configs, providers, paths and keys, never what a provider returned.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from odradek.config.properties import parse_properties

PROVIDERS: Final = "config.providers"
PREFIX: Final = "config.providers."

_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_CLASSES: Final = {
    "env": f"{_PACKAGE}EnvVarConfigProvider",
    "file": f"{_PACKAGE}FileConfigProvider",
    "directory": f"{_PACKAGE}DirectoryConfigProvider",
}
# The names in Kafka's documentation: a value that uses one without a declaration is probably an oversight.
_USUAL_NAMES: Final = {"env": "env", "file": "file", "dir": "directory", "directory": "directory"}


class ProviderSources(Protocol):
    """What config providers read."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    def exists(self, path: str) -> bool: ...

    def read_file(self, path: str) -> str:
        """Read a regular file of limited size as UTF-8. Raises OSError or ValueError."""


class Problem(NamedTuple):
    key: str
    message: str


class Resolution(NamedTuple):
    texts: dict[str, str]
    """All values, with their variables replaced."""
    resolved: frozenset[str]
    """The keys whose values came from a provider, at least in part. They may be secret."""
    secrets: frozenset[str]
    """What the providers returned."""
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


class _Failure(Exception):
    """A variable has no value. The message completes `<config>: config provider <name> …`."""


_Lookup = Callable[[str, str], str]


def resolve(texts: Mapping[str, str], sources: ProviderSources) -> Resolution:
    """Replace the variables of all values. Values that providers return are not resolved again."""
    errors: list[Problem] = []
    providers = _providers(texts, sources, errors)
    found: dict[str, str] = dict(texts)
    resolved: set[str] = set()
    secrets: set[str] = set()

    def replace(key: str, variable: re.Match[str]) -> str:
        name = variable[1]
        if name not in providers:
            return variable[0]
        try:
            value = providers[name](variable[3] or "", variable[4])
        except _Failure as failure:
            errors.append(Problem(key, f"{key}: config provider {name!r} {failure}"))
            return variable[0]
        resolved.add(key)
        secrets.add(value)
        return value

    for key, text in texts.items():
        if "${" in text and not key.startswith(PREFIX):
            found[key] = _VARIABLE.sub(lambda variable, key=key: replace(key, variable), text)  # type: ignore[misc]
    return Resolution(found, frozenset(resolved), frozenset(secrets), tuple(errors), tuple(undeclared_variables(texts)))


def undeclared_variables(texts: Mapping[str, str]) -> list[Problem]:
    """Warnings for variables of Kafka's usual providers without a declaration: Kafka uses such a text as it is."""
    declared = _names(texts)
    warnings = []
    for key, text in texts.items():
        used = {variable[1] for variable in _VARIABLE.finditer(text)} if "${" in text else set()
        for name in sorted(used & _USUAL_NAMES.keys() - set(declared)):
            names = ",".join((*declared, name))
            warnings.append(
                Problem(
                    key,
                    f"{key}: a variable of config provider {name!r} is not replaced; set {PROVIDERS}={names} and "
                    f"{PREFIX}{name}.class={_CLASSES[_USUAL_NAMES[name]]}",
                )
            )
    return warnings


def hide(message: str, secrets: frozenset[str]) -> str:
    """The message without values from providers, quoted or not, in any case."""
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, secret.strip(), repr(secret)[1:-1]):
            if len(form) >= _HIDDEN_LENGTH_MIN:
                message = re.sub(re.escape(form), "[hidden]", message, flags=re.IGNORECASE)
    return message


# Shorter texts are in many words by chance.
_HIDDEN_LENGTH_MIN: Final = 3


def _names(texts: Mapping[str, str]) -> list[str]:
    return [name for name in map(str.strip, texts.get(PROVIDERS, "").split(",")) if name]


def _providers(texts: Mapping[str, str], sources: ProviderSources, errors: list[Problem]) -> dict[str, _Lookup]:
    providers: dict[str, _Lookup] = {}
    for name in _names(texts):
        class_key = f"{PREFIX}{name}.class"
        class_name = texts.get(class_key, "").strip()
        if not class_name:
            usual = _CLASSES[_USUAL_NAMES.get(name, "file")]
            errors.append(Problem(PROVIDERS, f"{PROVIDERS}: provider {name!r} has no class; set {class_key}={usual}"))
            continue
        parameters = {
            key.removeprefix(f"{PREFIX}{name}.param."): value
            for key, value in texts.items()
            if key.startswith(f"{PREFIX}{name}.param.")
        }
        try:
            providers[name] = _provider(class_name, parameters, sources)
        except _Failure as failure:
            errors.append(Problem(class_key, f"{PREFIX}{name}{failure}"))
    return providers


def _provider(class_name: str, parameters: Mapping[str, str], sources: ProviderSources) -> _Lookup:
    if class_name == _CLASSES["env"]:
        return _environment_provider(parameters, sources)
    if class_name not in _CLASSES.values():
        known = ", ".join(one.removeprefix(_PACKAGE) for one in _CLASSES.values())
        raise _Failure(f".class: cannot load the Java class {class_name}; use one of {known} of {_PACKAGE[:-1]}")
    allowed = _allowed_paths(parameters.get("allowed.paths", ""), sources)

    def check(path: str) -> str:
        if not path:
            raise _Failure("needs a path: write ${provider:path:key}")
        if allowed is None:
            return path
        normal = posixpath.normpath(path)
        if not any(one == "/" or normal == one or normal.startswith(f"{one}/") for one in allowed):
            raise _Failure(f"may not read {path!r}, which is outside allowed.paths")
        return normal

    if class_name == _CLASSES["file"]:
        return lambda path, key: _from_properties(sources, check(path), key)
    return lambda path, key: _from_directory(sources, check(path), key)


def _environment_provider(parameters: Mapping[str, str], sources: ProviderSources) -> _Lookup:
    pattern_text = parameters.get("allowlist.pattern", ".*")
    try:
        pattern = re.compile(pattern_text)
    except re.error as error:
        raise _Failure(f".param.allowlist.pattern: invalid regular expression: {error}") from None

    def look_up(path: str, key: str) -> str:
        if path:
            raise _Failure(f"accepts no path, but the path is {path!r}: write ${{provider:VARIABLE}}")
        if not pattern.fullmatch(key):
            raise _Failure(f"may not read the environment variable {key!r}, which allowlist.pattern does not match")
        value = sources.environment.get(key)
        if value is None:
            raise _Failure(f"found no environment variable {key!r}")
        return value

    return look_up


def _allowed_paths(text: str, sources: ProviderSources) -> list[str] | None:
    """Normalized without following symbolic links, as Kafka does. None: all paths are allowed."""
    if not text:
        return None
    paths = [posixpath.normpath(one) for one in text.split(",") if one]
    for path in paths:
        if not posixpath.isabs(path):
            raise _Failure(f".param.allowed.paths: {path!r} is not an absolute path")
        if not sources.exists(path):
            raise _Failure(f".param.allowed.paths: {path!r} does not exist")
    return paths


def _from_properties(sources: ProviderSources, path: str, key: str) -> str:
    properties, malformed = parse_properties(_read(sources, path))
    if malformed:
        raise _Failure(f"cannot parse {path!r}: invalid escape sequence in line {malformed[0].line}")
    values = {one.key: one.value for one in properties}
    if key not in values:
        raise _Failure(f"found no key {key!r} in {path!r}")
    return values[key]


def _from_directory(sources: ProviderSources, path: str, key: str) -> str:
    if key in ("", ".", "..") or "/" in key or "\0" in key:
        raise _Failure(f"needs the name of a file in {path!r}, not {key!r}")
    return _read(sources, posixpath.join(path, key))


def _read(sources: ProviderSources, path: str) -> str:
    try:
        return sources.read_file(path)
    except OSError as error:
        raise _Failure(f"cannot read {path!r}: {error.strerror or 'unknown error'}") from None
    except ValueError:
        raise _Failure(f"cannot read {path!r}: it is not a text file of at most 1 MiB") from None
