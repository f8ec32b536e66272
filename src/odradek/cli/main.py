"""The entry point: finds the command, runs it, and reports an error as one line with exit code 2.

Only the module of the requested command is imported. A plain `start` does not even import typer, because node start-up
time is measured in hundredths of a second.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.host.log_lines import FORMATS, TEXT

if TYPE_CHECKING:
    import typer

# In the order of the help text. A module defines `app` (a group of commands) or `command` (a single one).
MODULES: Final = {
    "up": "odradek.cli.up",
    "start": "odradek.cli.start",
    "format": "odradek.cli.format",
    "random-uuid": "odradek.cli.random_uuid",
    "topic": "odradek.cli.topic",
    "produce": "odradek.cli.produce",
    "consume": "odradek.cli.consume",
    "group": "odradek.cli.group",
    "txn": "odradek.cli.txn",
    "config": "odradek.cli.config",
    "cert": "odradek.cli.cert",
    "user": "odradek.cli.user",
    "acl": "odradek.cli.acl",
    "token": "odradek.cli.token",
    "quota": "odradek.cli.quota",
    "cluster": "odradek.cli.cluster",
    "quorum": "odradek.cli.quorum",
    "reassign": "odradek.cli.reassign",
    "log": "odradek.cli.log",
    "job": "odradek.cli.job",
    "pipeline": "odradek.cli.pipeline",
    "console": "odradek.cli.console",
}


def main() -> None:
    # If hypothesis is installed, kio imports it to register strategies that only its own tests use: 0.15 s.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        plain = _parse_plain_start(arguments)
        if plain is not None:
            from odradek.local.start_node import start_node

            return start_node(*plain)
        return _run_typer(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _discard_output()
    except Exception as error:
        from odradek.client.explain import EXIT_CODE, explain
        from odradek.text.terminal import say

        line = explain(error)
        if line is None:
            raise
        say(f"error: {line}")
        return EXIT_CODE


def _parse_plain_start(arguments: Sequence[str]) -> tuple[str, list[str], str] | None:
    """Return file, overrides and log format of `start FILE [--override key=value …] [--log-format json]`.

    None for any other command line: typer parses those.
    """
    if len(arguments) < 2 or len(arguments) % 2 or arguments[0] != "start" or arguments[1].startswith("-"):
        return None
    overrides: list[str] = []
    log_format = TEXT
    for option, value in zip(arguments[2::2], arguments[3::2], strict=True):
        if option == "--override":
            overrides.append(value)
        elif option == "--log-format" and value in FORMATS:
            log_format = value
        else:
            return None
    return arguments[1], overrides, log_format


def _run_typer(arguments: Sequence[str]) -> int:
    first = arguments[0] if arguments else None
    needed = [first] if first in MODULES else [] if first == "--version" else list(MODULES)
    import typer

    from odradek.client.explain import EXIT_CODE
    from odradek.text.terminal import say

    app = build_app(needed)
    # typer would print a usage error in a box of six lines.
    usage_error = cast(type[Exception], typer.BadParameter.__bases__[0])
    try:
        command = typer.main.get_command(app)
        _hide_flag_types(command)
        code = command(list(arguments), prog_name="odradek", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except usage_error as error:
        return _explain_usage(error)
    except typer.Abort:
        say("error: Aborted.")
        return EXIT_CODE


def build_app(names: Sequence[str]) -> "typer.Typer":
    """Build the app with these commands only; the modules of the others are not imported."""
    import typer

    app = typer.Typer(
        name="odradek",
        help="A Kafka cluster in Python: run brokers and controllers, administer the cluster, produce and consume.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", is_eager=True, callback=_show_version, help="Show the version."
        ),
    ) -> None:
        del version

    for name in names:
        module = import_module(MODULES[name])
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    return app


def _hide_flag_types(command: Any, parent: Any = None) -> None:
    """The help would show `--fresh <bool>`, as if a flag took a value."""
    import typer

    context = typer.Context(command, parent=parent, **command.context_settings)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for child in getattr(command, "commands", {}).values():
        _hide_flag_types(child, context)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        import typer

        import odradek

        print(f"odradek {odradek.__version__}")
        raise typer.Exit


def _explain_usage(error: Exception) -> int:
    """Print one line that points to the help; print nothing if typer has just printed the help itself."""
    from odradek.client.explain import EXIT_CODE
    from odradek.text.errors import as_sentence
    from odradek.text.terminal import say

    message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    if message:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "odradek"
        say(f"error: {as_sentence(' '.join(message.split()))} Run `{path} --help` for usage.")
    return EXIT_CODE


def _discard_output() -> int:
    """The reader of our output has closed it (`| head`), which is no error.

    Buffered output goes to /dev/null, so that flushing it at exit does not fail again.
    """
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
