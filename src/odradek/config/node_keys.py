"""Validates each key of a `server.properties` on its own: known, supported, of the right type and in range."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.config import supported
from odradek.config.definitions import BROKER_CONFIGS, UpdateMode
from odradek.config.problems import Problems
from odradek.config.properties import Property
from odradek.config.removed import advice_on_removed, zookeeper_error
from odradek.config.synonyms import TOPIC_SYNONYMS, base_name
from odradek.config.values import ConfigValue, InvalidValue

if TYPE_CHECKING:
    from odradek.config.providers import ProviderSources

_PROVIDERS: Final = "config.providers"


def collect(properties: Iterable[Property], overrides: Mapping[str, str], problems: Problems) -> dict[str, str]:
    """The text of each key, including overrides, after a check of every name."""
    given: dict[str, str] = {}
    lines: dict[str, int | None] = {}
    repeated: list[tuple[str, int]] = []
    for key, value, line in properties:
        if (earlier := lines.get(key)) is not None:
            repeated.append((key, earlier))
        given[key], lines[key] = value, line
    for key, value in overrides.items():
        given[key], lines[key] = value, None
    problems.locate(lines)
    for key, earlier in repeated:
        problems.warn(key, f"{key} is also set at line {earlier}: the last value applies")
    for key in list(given):
        _check_name(key, given, problems)
        if key in BROKER_CONFIGS and BROKER_CONFIGS[key].update_mode is UpdateMode.DYNAMIC_ONLY:
            problems.warn(key, f"{key} has no effect in the file: set it at run time (odradek config set)")
            del given[key]
    return given


def resolve_variables(given: dict[str, str], sources: "ProviderSources | None", problems: Problems) -> None:
    """Replace the variables of config providers in the values, and hide what they return from all messages."""
    if not any("${" in text for text in given.values()) and _PROVIDERS not in given:
        return
    # Imported only if needed, which keeps the start fast without it.
    from odradek.config import providers

    if sources is None:
        if _PROVIDERS in given:
            problems.error(_PROVIDERS, f"{_PROVIDERS} is not available here")
        return
    resolution = providers.resolve(given, sources)
    given.update(resolution.texts)
    for key, message in resolution.errors:
        problems.error(key, message)
    for key, message in resolution.warnings:
        problems.warn(key, message)
    problems.hide(resolution.resolved, lambda message: providers.hide(message, resolution.secrets))


def _check_name(key: str, given: Mapping[str, str], problems: Problems) -> None:
    if key == "zookeeper.connect":
        problems.error(key, zookeeper_error(given.get("node.id") or given.get("broker.id") or "1"))
    elif key in supported.REJECTED:
        if given[key].strip():
            problems.error(key, f"{key}: {supported.REJECTED[key]}")
    elif (
        key in supported.BROKER
        or key.startswith(f"{_PROVIDERS}.")
        or (key in supported.RESERVED and key in BROKER_CONFIGS)
    ):
        pass
    elif key in BROKER_CONFIGS:
        reason = supported.WITHOUT_EFFECT.get(key, "it is not supported yet")
        problems.warn(key, f"{key} has no effect: {reason}")
    elif advice := advice_on_removed(key):
        problems.warn(key, f"{key} has no effect: {advice}")
    elif key in TOPIC_SYNONYMS:
        broker_config = TOPIC_SYNONYMS[key][0].broker_config
        problems.warn(key, f"{key} has no effect: it is a topic config; use {broker_config}")
    elif base_name(key) in supported.FOR_LISTENERS:
        # Their values are checked with their listener.
        pass
    elif base_name(key) in BROKER_CONFIGS:
        problems.warn(key, f"{key} has no effect: configs of single listeners are not supported yet")
    else:
        problems.warn(key, f"{key} has no effect: unknown config{_suggestion(key)}")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # only for errors, and slow to import

    matches = get_close_matches(name.lower(), list(known), n=1)
    return matches[0] if matches else None


def _suggestion(key: str) -> str:
    public = (name for name, definition in BROKER_CONFIGS.items() if definition.update_mode is not UpdateMode.INTERNAL)
    nearest = nearest_name(key, public)
    return f"; did you mean {nearest}?" if nearest else ""


def parse_all(given: Mapping[str, str], problems: Problems) -> dict[str, ConfigValue]:
    """The typed values of the given configs, and the defaults of supported ones. Invalid values are skipped."""
    typed = {name: BROKER_CONFIGS[name].default for name in supported.BROKER}
    for key, text in given.items():
        if (definition := BROKER_CONFIGS.get(key)) and not problems.has_error(key):
            try:
                typed[key] = definition.parse(text)
            except InvalidValue as invalid:
                problems.error(key, str(invalid))
    return typed
