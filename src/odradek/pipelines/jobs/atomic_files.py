"""Small files that are there whole or not at all, also after the power went."""

import os
from pathlib import Path
from uuid import uuid4


def write_atomically(file: Path, text: str) -> None:
    """Replaces what was there."""
    _draft(file, text).replace(file)
    fsync_directory(file.parent)


def write_new(file: Path, text: str) -> None:
    """Raises FileExistsError if it is there already."""
    draft = _draft(file, text)
    try:
        # Unlike a rename, it replaces nothing.
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
        # Opening a file says which; writing to it does not.
        error.filename = error.filename or str(file)
        raise
    return draft


def fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
