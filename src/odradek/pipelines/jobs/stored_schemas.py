"""The schemas that a job has used, in its state directory, so that a repeated batch or an audit decodes the same.

Tasks and audits read them there.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.schemas.schema import Reference, Schema

WITHOUT_ID: Final = -1
"""The ID for records without framing."""


class StoredSchemas:
    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory

    def find(self, schema_id: int) -> Schema | None:
        try:
            found = json.loads(self._file(schema_id).read_text())
        except FileNotFoundError:
            return None
        references = tuple(Reference(**one) for one in found.pop("references"))
        return Schema(**found, references=references)

    def keep(self, schema_id: int, schema: Schema) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(schema_id), json.dumps(asdict(schema)) + "\n")

    def _file(self, schema_id: int) -> Path:
        return self.directory / f"{'plain' if schema_id == WITHOUT_ID else schema_id}.json"
