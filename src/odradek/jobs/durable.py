"""Small files that are there whole or not at all, also after the power went."""

import os
from pathlib import Path
from uuid import uuid4


def write_whole(file: Path, text: str) -> None:
    """Replaces what was there."""
    draft = file.with_name(f".{file.name}.{uuid4()}.tmp")
    with draft.open("w") as output:
        output.write(text)
        output.flush()
        os.fsync(output.fileno())
    draft.replace(file)
    fsync_directory(file.parent)


def fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
