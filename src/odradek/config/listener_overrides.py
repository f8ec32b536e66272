"""The value of a config for one listener, as overrides with the prefix `listener.name.<name>.` determine it."""

from collections.abc import Mapping


def listener_value(
    texts: Mapping[str, str], listener_name: str, key: str, *, mechanism: str | None = None
) -> str | None:
    """The text of the most specific config that is set; None: none is, and the default applies.

    Kafka's precedence: listener and SASL mechanism, then listener, then the config without a prefix.
    """
    prefix = f"listener.name.{listener_name.lower()}."
    names = [prefix + key, key]
    if mechanism is not None:
        names.insert(0, f"{prefix}{mechanism.lower()}.{key}")
    return next((texts[name] for name in names if name in texts), None)
