"""TLS and SASL options: Kafka's client configs with the prefix `kafka.`, as in the connector. Pure."""

from collections.abc import Mapping
from typing import Final

from odradek.client.security import Security
from odradek.client.security_configs import WrongConfig, security_of
from odradek.pipelines.spark.errors import OptionError
from odradek.text.errors import as_sentence

_PREFIX: Final = "kafka."


def security_options(options: Mapping[str, str]) -> Security:
    configs = {name.removeprefix(_PREFIX): text for name, text in options.items() if name.startswith(_PREFIX)}
    try:
        return security_of(configs)
    except WrongConfig as error:
        raise OptionError(as_sentence(f"Option {_PREFIX}{error}")) from None
