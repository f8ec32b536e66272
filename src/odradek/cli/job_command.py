"""Parses the command line of a job that the console manages."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import typer

from odradek.cli import job
from odradek.pipelines.job_command import AUDIT, INGEST, LOAD, JobCommand
from odradek.text.errors import UserError, as_sentence

_FORMS: Final = "Use `ingest TOPIC TABLE`, `audit TOPIC TABLE` or `load SOURCE TOPIC` with their options."


def parse_job_command(text: str, option: str) -> JobCommand:
    """Parse the command. Raises UserError. Topics and tables are checked when the job runs."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{option}: {as_sentence(str(error))} {_FORMS}") from None
    for leading in ("odradek", "job"):
        if words[:1] == [leading]:
            del words[0]
    if not words or words[0] not in (INGEST, AUDIT, LOAD):
        raise UserError(f"{option}: {words[0] if words else ''!r} is not a job. {_FORMS}")
    given = _parse_parameters(words[0], words[1:], option)
    if given.get("against"):
        raise UserError(
            f"{option}: an audit of two topics keeps no state, so the console cannot show it. Specify a table."
        )
    kind, topic = words[0], str(given["topic"])
    if kind == LOAD:
        table = Path(given["state"]) if given["state"] else job.default_state_dir(Path(given["source"]))
        name = given["name"] or job.load_name(topic)
    else:
        if given["table"] is None:
            raise UserError(f"{option}: missing table. {_FORMS}")
        table, name = Path(given["table"]), given["name"] or topic
    return JobCommand(arguments=tuple(words), kind=kind, name=name, topic=topic, table=table.absolute())


def _parse_parameters(kind: str, arguments: list[str], option: str) -> Mapping[str, Any]:
    """Parse the arguments with the command's own parser."""
    command = cast(Any, typer.main.get_command(job.app)).commands[kind]
    usage_error = cast(type[Exception], typer.BadParameter.__bases__[0])
    try:
        return cast(Mapping[str, Any], command.make_context(kind, arguments).params)
    except usage_error as error:
        message = as_sentence(" ".join(cast(Any, error).format_message().split()))
        raise UserError(f"{option}: {message} Run `odradek job {kind} --help` for usage.") from None
    except typer.Exit:
        raise UserError(f"{option}: {_FORMS}") from None
