"""Runs one node in this process. Imports only what a node needs, to keep its start fast."""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from odradek.config.node_config import NodeConfig
from odradek.host.log_lines import TEXT, log_to_stderr
from odradek.host.provider_sources import HostProviderSources
from odradek.local.interpreter import find_interpreter_warning

NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})

logger = logging.getLogger(__name__)


def start_node(file: str, overrides: Sequence[str], log_format: str = TEXT) -> int:
    """Run the node until it is stopped. Returns the exit code of the process."""
    config = load_config(file, overrides)
    log_to_stderr(log_format)
    if (warning := find_interpreter_warning()) is not None:
        logger.warning("%s", warning)
    from odradek.node.run import run_node

    return run_node(config)


def load_config(file: str, overrides: Sequence[str] = ()) -> NodeConfig:
    """Load server.properties with overrides. Raises ConfigErrors, UserError or OSError."""
    given: dict[str, str] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            from odradek.text.errors import UserError

            raise UserError(f"--override {text!r} is not in the form KEY=VALUE.")
        given[key.strip()] = value
    with open(file, encoding="utf-8", errors="replace") as source:
        return parse_config(source.read(), file, given)


def parse_config(text: str, file: str, overrides: Mapping[str, str] = NO_OVERRIDES) -> NodeConfig:
    """Parse the text of server.properties with overrides. Config providers read from this machine."""
    return NodeConfig.load(text, file, overrides, sources=HostProviderSources())
