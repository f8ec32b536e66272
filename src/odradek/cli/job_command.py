"""Parses the command line of a job that the console shows, starts and stops."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import typer

from odradek.cli import job
from odradek.pipelines.job_command import AUDIT, INGEST, LOAD, JobCommand
from odradek.text.errors import UserError

_FORMS: Final = "write `ingest TOPIC TABLE`, `audit TOPIC TABLE` or `load SOURCE TOPIC`, with the options of each"


def parse_job_command(text: str, option: str) -> JobCommand:
    """Raises UserError. What is wrong with topics and tables is found when it runs."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{option}: {str(error).lower()} in the command: {_FORMS}") from None
    for leading in ("odradek", "job"):
        if words[:1] == [leading]:
            del words[0]
    if not words or words[0] not in (INGEST, AUDIT, LOAD):
        raise UserError(f"{option}: {words[0] if words else 'nothing'!r} is no job: {_FORMS}")
    given = _parameters(words[0], words[1:], option)
    if given.get("against"):
        raise UserError(f"{option}: an audit of two topics keeps nothing that could be looked at: name a table")
    kind, topic = words[0], str(given["topic"])
    if kind == LOAD:
        table = Path(given["state"]) if given["state"] else job.state_beside(Path(given["source"]))
        name = given["name"] or job.load_name(topic)
    else:
        if given["table"] is None:
            raise UserError(f"{option}: which table? {_FORMS}")
        table, name = Path(given["table"]), given["name"] or topic
    return JobCommand(arguments=tuple(words), kind=kind, name=name, topic=topic, table=table.absolute())


def _parameters(kind: str, arguments: list[str], option: str) -> Mapping[str, Any]:
    """As the command itself would take them."""
    command = cast(Any, typer.main.get_command(job.app)).commands[kind]
    usage_error = cast(type[Exception], typer.BadParameter.__bases__[0])
    try:
        return cast(Mapping[str, Any], command.make_context(kind, arguments).params)
    except usage_error as error:
        told = " ".join(cast(Any, error).format_message().split()).rstrip(".")
        raise UserError(f"{option}: {told[:1].lower()}{told[1:]}; see `odradek job {kind} --help`") from None
    except typer.Exit:
        raise UserError(f"{option}: {_FORMS}") from None
