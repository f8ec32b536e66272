"""Files that only their owner may read: private keys and passwords."""

import os
import tempfile
from pathlib import Path

from odradek.text.errors import UserError


def write_private(path: Path, content: bytes | str, *, replace: bool = False) -> None:
    """Write the file with mode 600 in one step, so that no reader finds a part of it.

    Raises UserError if the file exists and `replace` is false.
    """
    data = content.encode() if isinstance(content, str) else content
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 600
    temporary = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if replace:
            temporary.replace(path)
        else:
            path.hardlink_to(temporary)
    except FileExistsError:
        raise UserError(f"{str(path)!r} already exists. Use --force to replace it, or choose another path.") from None
    finally:
        temporary.unlink(missing_ok=True)
