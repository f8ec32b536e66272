"""Generates the CLI reference from the typer commands and the config reference from the config definitions.

The docs build calls it (`tools/site_hooks.py`), so neither page can go stale. `python -m tools.references cli` prints
one of them.
"""

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from odradek.cli.main import MODULES, build_app
from odradek.config import group_config, supported
from odradek.config.definitions import BROKER_CONFIGS, ONLY_IN_ODRADEK, TOPIC_CONFIGS, ConfigDefinition, UpdateMode

_CLI_INTRODUCTION: Final = """# Command-line reference

This page is generated from the commands; `odradek COMMAND --help` prints the same text.
Options that read an environment variable name it. Exit code 0 means success, 2 an error that is explained in one line,
130 that Ctrl-C stopped the command; a command that uses other exit codes says so.

## Connection options

Every command that connects to a cluster has these options.
"""
_CONFIG_INTRODUCTION: Final = """---
hide: [toc]
---

# Config reference

This page is generated from Odradek's config definitions. Names and defaults are those of Apache Kafka 4.3.1.

| column | meaning |
|---|---|
| supported | **yes**: the config does what it does in Kafka. **no effect**: the node logs a warning when it is set, \
and AlterConfigs rejects it. **accepted**: it belongs to a feature that Odradek does not serve yet, and is ignored. \
**rejected**: the node does not start with it. |
| dynamic | whether it can change at run time: **per broker**, **cluster-wide** (one value for all brokers) or **no** \
(change `server.properties` and restart the node) |
| differs from Kafka | what Odradek does differently; empty if nothing |

See also [differences from Apache Kafka](../differences.md).
"""
_DYNAMIC: Final = {
    UpdateMode.READ_ONLY: "no",
    UpdateMode.PER_BROKER: "per broker",
    UpdateMode.CLUSTER_WIDE: "cluster-wide",
    UpdateMode.DYNAMIC_ONLY: "only dynamic",
    UpdateMode.TOPIC: "yes",
    UpdateMode.INTERNAL: "no",
}
_VALUES: Final[dict[Any, str]] = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}
_OPTION_TITLES: Final = ("option", "meaning", "default")
ONLY_HERE: Final = "Kafka does not have this config"
_MORE_DIFFERENCES: Final = {
    "log.preallocate": "stored and shown; segments are not preallocated",
    "preallocate": "stored and shown; segments are not preallocated",
    "replica.selector.class": "only Kafka's two selectors; other classes are rejected at startup",
    "segment.jitter.ms": "derived from the partition's name and offset, so that a run can be repeated",
    "group.consumer.assignors": "only the built-in assignors `uniform` and `range`",
    "transaction.two.phase.commit.enable": "InitProducerId version 6 is served (KIP-939); Kafka 4.3 rejects it",
}


# The CLI.


def cli_reference() -> str:
    root = _root()
    connection = {option.opts[0]: option for option in root.commands["produce"].params if _is_connection(option)}
    rows = [_option_row(option) for option in connection.values()]
    return "\n".join([_CLI_INTRODUCTION, _table(_OPTION_TITLES, rows), *_command_pages("odradek", root, 2)])


def command_paths() -> list[str]:
    """Every command as it is typed: `odradek topic create`."""
    return [path for path, _ in walk_commands("odradek", _root())]


def _root() -> Any:
    from typer.main import get_command

    return get_command(build_app(list(MODULES)))


def walk_commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command and group of commands with its path, parents first."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from walk_commands(f"{path} {name}", child)


def _command_pages(path: str, root: Any, level: int) -> Iterator[str]:
    for command_path, command in walk_commands(path, root):
        depth = command_path.count(" ")
        if not depth:
            continue
        yield f"{'#' * (level + depth - 1)} `{command_path}`\n"
        yield f"{inspect.cleandoc(command.help or '')}\n"
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        options = [parameter for parameter in command.params if _is_shown_option(parameter)]
        if arguments or not hasattr(command, "commands"):
            yield f"```text\n{' '.join((command_path, *_usage(arguments, options)))}\n```\n"
        if arguments:
            yield _table(("argument", "meaning"), [(f"`{_metavar(it)}`", _argument_help(it)) for it in arguments])
        if options:
            yield _table(_OPTION_TITLES, [_option_row(option) for option in options if not _is_connection(option)])
        if any(map(_is_connection, options)):
            yield "This command also has the [connection options](#connection-options).\n"


def _is_shown_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not parameter.hidden and "--help" not in parameter.opts


def _is_connection(parameter: Any) -> bool:
    return bool({"--bootstrap", "--command-config"} & set(parameter.opts))


def _usage(arguments: list[Any], options: list[Any]) -> Iterator[str]:
    if options:
        yield "[OPTIONS]"
    for argument in arguments:
        name = _metavar(argument) + ("…" if argument.nargs == -1 and "…" not in _metavar(argument) else "")
        yield name if argument.required else f"[{name}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).strip("{}[]").removesuffix("...")


def _argument_help(argument: Any) -> str:
    return _cell(getattr(argument, "help", None) or "") or ("required" if argument.required else "optional")


def _option_row(option: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag:
        names += f" {_value(option)}"
    meaning = _cell(option.help or "")
    if option.required:
        meaning += " Required."
    if option.multiple and "repeat" not in meaning:
        meaning += " Repeatable."
    if option.envvar:
        meaning += f" Environment variable: `{option.envvar}`."
    return names, meaning, _default(option)


def _value(option: Any) -> str:
    if option.metavar:
        return f"`{option.metavar}`"
    kind = option.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"({', '.join(f'`{choice.value}`' for choice in kind)})"
    return f"`{_VALUES.get(kind, str(option.name).upper())}`"


def _default(option: Any) -> str:
    default = option.default
    if option.required or default in (None, False, (), "") or callable(default):
        return ""
    if default is True:
        return "on"
    return f"`{getattr(default, 'value', default)}`"


# Configs.


def config_reference() -> str:
    own = {name: one for name, one in BROKER_CONFIGS.items() if is_own(one)}
    internal = {name for name, one in BROKER_CONFIGS.items() if one.is_internal and name not in own}
    broker = [one for name, one in BROKER_CONFIGS.items() if name not in own and name not in internal]
    return "\n".join(
        [
            _CONFIG_INTRODUCTION,
            "## Configs that only Odradek has\n",
            _config_table(list(own.values()), supported.BROKER),
            "## Topic configs\n",
            "Set them with `odradek topic create --config` or `odradek config set --topic`.\n",
            _config_table(list(TOPIC_CONFIGS.values()), supported.TOPIC),
            "## Group configs\n",
            "Set them with `odradek config set --group`. Each overrides the broker config `group.NAME`.\n",
            _group_table(),
            "## Broker and controller configs\n",
            "Set them in `server.properties`; the dynamic ones also with `odradek config set --broker`.\n",
            _config_table(broker, supported.BROKER),
            "## Internal configs of Kafka\n",
            "Kafka does not document these; `DescribeConfigs` hides them until they are set.\n",
            _config_table([BROKER_CONFIGS[name] for name in sorted(internal)], supported.BROKER),
        ]
    )


def is_own(definition: ConfigDefinition) -> bool:
    return definition.name in ONLY_IN_ODRADEK


def _config_table(definitions: list[ConfigDefinition], described: Any) -> str:
    rows = [_config_row(one, described) for one in sorted(definitions)]
    return _table(("config", "supported", "default", "dynamic", "differs from Kafka"), rows)


def _config_row(one: ConfigDefinition, described: Any) -> tuple[str, ...]:
    return (
        f"`{one.name}`" + (f"<br>{_cell(described[one.name])}" if one.name in described else ""),
        _support(one.name, described),
        _config_default(one),
        "no" if one.name in supported.FIXED_AT_START else _DYNAMIC[one.update_mode],
        _cell(_difference(one, described)),
    )


def _support(name: str, described: Any) -> str:
    if name in supported.REJECTED:
        return "rejected"
    if name in described:
        return "**yes**"
    return "accepted" if name in supported.RESERVED else "no effect"


def _config_default(one: ConfigDefinition) -> str:
    if one.is_required:
        return "required"
    return f"`{_cell(one.default_text)}`" if one.default_text else ""


def _difference(one: ConfigDefinition, described: Any) -> str:
    name = one.name
    if is_own(one):
        return ONLY_HERE
    if name in supported.REJECTED:
        return supported.REJECTED[name]
    if name in supported.FIXED_AT_START:
        return supported.FIXED_AT_START[name]
    if name in supported.RESERVED:
        return f"{supported.RESERVED[name]} are not served yet" if name.startswith("share") else "not served yet"
    if name in described:
        return _MORE_DIFFERENCES.get(name, "")
    return supported.WITHOUT_EFFECT.get(name, "not supported yet")


def _group_table() -> str:
    rows = []
    for name in sorted((*group_config.OF_BROKER, *group_config.OWN)):
        is_supported = name in group_config.SUPPORTED
        default = BROKER_CONFIGS.get(f"group.{name}")
        rows.append(
            (
                f"`{name}`",
                "**yes**" if is_supported else "rejected",
                _config_default(default) if default else "",
                "" if is_supported else "not supported yet",
            )
        )
    return _table(("config", "supported", "default", "differs from Kafka"), rows)


def _table(titles: tuple[str, ...], rows: list[Any]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(cli_reference() if sys.argv[1:] == ["cli"] else config_reference())
