"""A job's state in `_odradek/<name>` of its table: identity, columns and planned batches.

A batch's offsets are stored before it runs, so that a repeated batch has the same records. Only the table's marker
determines whether it is committed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from odradek.pipelines.jobs.atomic_files import write_atomically, write_new
from odradek.pipelines.jobs.columns import columns_text, parse_columns
from odradek.pipelines.jobs.lock import hold_lock
from odradek.pipelines.jobs.rows import NewFields
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError

DIRECTORY: Final = "_odradek"
LOCK: Final = "lock"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
# URLs such as s3://…, which Path reduces to one slash.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# Only the last plan is needed. The others help to investigate problems.
_PLANS_KEPT: Final = 100
# Defaults for the state of older releases.
_BEFORE: Final = {"values": "json"}


class Plan(NamedTuple):
    batch: int
    start: Positions
    end: Positions
    new_fields: NewFields = NewFields.ADD
    """Stored, so that a repeated batch has the same rows and dead letters."""


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise UserError(f"--name {name!r} is invalid. Use at most 200 of the characters a-z A-Z 0-9 . _ -")
    return name


def list_jobs(table: Path) -> list[str]:
    """Return the names of the jobs with state in this table."""
    return sorted(one.parent.name for one in (table / DIRECTORY).glob("*/job.json"))


class JobState:
    def __init__(self, table: Path, name: str) -> None:
        if _ADDRESS.match(str(table)):
            raise UserError(
                f"{str(table)!r} is not a directory. Choose a directory that this machine and all executors can access."
            )
        self.directory: Final = table / DIRECTORY / check_name(name)
        self.letters: Final = self.directory / "letters"
        self.schemas: Final = self.directory / "schemas"
        self._plans: Final = self.directory / "batches"
        self._name: Final = name

    @property
    def lock(self) -> Path:
        return self.directory / LOCK

    @property
    def audits(self) -> Path:
        """The directory for the status of the job's audits."""
        return self.directory / "audit"

    @property
    def exists(self) -> bool:
        return (self.directory / "job.json").is_file()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the job's lock, so that only one run is active."""
        self._plans.mkdir(parents=True, exist_ok=True)
        self.letters.mkdir(exist_ok=True)
        refusal = f"Job {self._name!r} is already running. Stop it with `odradek job stop`, or choose another --name."
        with hold_lock(self.lock, refusal):
            yield

    def identify(self, identity: Mapping[str, str]) -> None:
        """Store the identity in the first run. In later runs, the given values must match."""
        file = self.directory / "job.json"
        if not self.exists:
            known = {"id": uuid4().hex, **identity}
            write_atomically(file, json.dumps(known, indent=2, sort_keys=True) + "\n")
            return
        known = self.identity()
        for key, value in identity.items():
            found = known.get(key, _BEFORE.get(key, ""))
            if value and found != value:
                raise UserError(
                    f"{str(self.directory)!r} belongs to another job: its {key} is {found!r}, not {value!r}. "
                    "Choose another --name."
                )

    def identity(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.directory / "job.json").read_text())
        return found

    def columns(self) -> Any | None:
        """Return None if not known yet. The schema may be empty, if all records are null or rejected."""
        file = self.directory / "schema"
        text = file.read_text() if file.is_file() else None
        return None if text is None else parse_columns(text) if text.strip() else pa.schema([])

    def keep_columns(self, columns: Any) -> None:
        write_atomically(self.directory / "schema", columns_text(columns) + "\n")

    def first(self) -> Positions | None:
        """Return the job's start offsets, if stored."""
        file = self.directory / "start.json"
        return Positions.from_json(json.loads(file.read_text())) if file.is_file() else None

    def keep_first(self, start: Positions) -> None:
        write_atomically(self.directory / "start.json", json.dumps(start.to_json()) + "\n")

    def last_plan(self) -> Plan | None:
        numbers = self._numbers()
        return self.plan(max(numbers)) if numbers else None

    def plan(self, batch: int) -> Plan:
        file = self._file(batch)
        try:
            found = json.loads(file.read_text())
            return Plan(
                batch,
                Positions.from_json(found["start"]),
                Positions.from_json(found["end"]),
                NewFields(found["new_fields"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{str(file)!r} is not a valid batch plan ({error}). Restore the file.") from None

    def keep_plan(self, plan: Plan) -> None:
        form = {"start": plan.start.to_json(), "end": plan.end.to_json(), "new_fields": plan.new_fields}
        try:
            write_new(self._file(plan.batch), json.dumps(form) + "\n")
        except FileExistsError:
            raise UserError(
                f"Another run of job {self._name!r} has planned batch {plan.batch}. Nothing was written twice. Keep "
                "only "
                "one run."
            ) from None
        for number in self._numbers():
            if number <= plan.batch - _PLANS_KEPT:
                self._file(number).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        if not self._plans.is_dir():
            return []
        return [int(file.stem) for file in self._plans.glob("*.json") if file.stem.isdigit()]

    def _file(self, batch: int) -> Path:
        return self._plans / f"{batch:020d}.json"
