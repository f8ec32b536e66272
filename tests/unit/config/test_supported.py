"""Every supported config is read by some code: a guard against accepting a config and ignoring it."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import odradek
from odradek.config import sasl_config, supported, tls_settings
from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.node_config import NodeConfig
from odradek.config.synonyms import TOPIC_SYNONYMS
from odradek.config.topic_config import TopicConfig

READ_THROUGH = {
    "broker.id": "node_id",
    "cleanup.policy": "compact",
    "internal.segment.bytes": "segment_bytes",
    "listener.security.protocol.map": "listeners",
    "log.dir": "log_dirs",
    "message.timestamp.type": "log_append_time",
}
"""Configs that are read under another name than their own."""

DECIDED_AT_LOADING = {"config.providers", "process.roles", "security.inter.broker.protocol"} | supported.FOR_LISTENERS
"""Used only to derive other fields and values."""

MECHANISMS_OF_PEERS = {"sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol"}
"""Read by `node/sasl.py` under a constant of `config/sasl_checks.py`."""

KEPT_WITHOUT_EFFECT = {"preallocate"}
"""Stored and shown without effect, as its documentation and `docs/differences.md` say."""


@cache
def words_of_the_rest() -> frozenset[str]:
    """Names of fields, and names of configs in quotes."""
    package = Path(odradek.__file__).parent
    files = (path for path in package.rglob("*.py") if path.parent.name != "config")
    return frozenset(word for path in files for word in re.findall(r'(?<=")[a-z0-9.]+(?=")|\w+', path.read_text()))


def unread(names: Iterable[str], fields: Iterable[str]) -> set[str]:
    known = set(fields)
    missing = set()
    for name in names:
        field = READ_THROUGH.get(name, name.replace(".", "_"))
        if name in words_of_the_rest():
            continue
        if field not in known or field not in words_of_the_rest():
            missing.add(name)
    return missing


def test_every_supported_broker_config_is_read() -> None:
    supplying_topics = {synonym.broker_config for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    own = supported.BROKER.keys() - supplying_topics - DECIDED_AT_LOADING - MECHANISMS_OF_PEERS
    assert unread(own, {*dir(NodeConfig), *NodeConfig.__dataclass_fields__}) == set()


def test_every_config_of_a_single_listener_is_read() -> None:
    settings = Path(tls_settings.__file__).read_text() + Path(sasl_config.__file__).read_text()
    # Read with a prefix that is written once.
    prefix = "sasl.oauthbearer."
    settings, names = settings.replace(prefix, ""), {name.removeprefix(prefix) for name in supported.FOR_LISTENERS}
    assert {name for name in names if f'"{name}"' not in settings} == {"ssl.principal.mapping.rules"}
    assert "ssl.principal.mapping.rules" in words_of_the_rest()


def test_every_supported_topic_config_is_read() -> None:
    assert unread(supported.TOPIC, {*dir(TopicConfig), *TopicConfig.__dataclass_fields__}) == KEPT_WITHOUT_EFFECT


def test_config_fields_are_supported_configs() -> None:
    derived = {"advertised_controller_listeners", "topic_defaults", "values", "effective_values", "warnings"}
    derived |= {"security_protocols", "dynamic_broker", "dynamic_cluster_default", "login_file"}
    names = {name.replace(".", "_") for name in supported.BROKER}
    assert set(NodeConfig.__dataclass_fields__) - derived <= names


def test_no_field_is_unknown_to_kafka() -> None:
    assert {*BROKER_CONFIGS, *supported.TOPIC} >= KEPT_WITHOUT_EFFECT
