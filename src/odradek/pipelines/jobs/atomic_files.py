"""Writes small files atomically and durably."""

import os
from pathlib import Path
from uuid import uuid4


def write_atomically(file: Path, text: str) -> None:
    """Replace the file."""
    _draft(file, text).replace(file)
    fsync_directory(file.parent)


def write_new(file: Path, text: str) -> None:
    """Raises FileExistsError if the file exists."""
    draft = _draft(file, text)
    try:
        # Unlike a rename, a link does not replace an existing file.
        os.link(draft, file)
    finally:
        draft.unlink()
    fsync_directory(file.parent)


def _draft(file: Path, text: str) -> Path:
    draft = file.with_name(f".{file.name}.{uuid4()}.tmp")
    try:
        with draft.open("w") as output:
            output.write(text)
            output.flush()
            os.fsync(output.fileno())
    except OSError as error:
        draft.unlink(missing_ok=True)
        # Errors of write and fsync have no file name.
        error.filename = error.filename or str(file)
        raise
    return draft


def fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
