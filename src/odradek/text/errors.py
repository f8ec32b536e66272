"""Error messages for users: one line that says what failed, why, and what to do."""

import errno
import os


class UserError(Exception):
    """An error that the user can fix. The message is the whole line, in complete sentences."""


def as_sentence(text: str) -> str:
    """Capitalize the first letter and end with a full stop, unless the text ends with another mark."""
    return with_full_stop(text[:1].upper() + text[1:])


def with_full_stop(text: str) -> str:
    """End with a full stop, unless the text ends with another mark. For text that starts with a file name or a key."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str | None:
    """Return the known name closest to a misspelled one, or None if none is close."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def explain_os_error(error: OSError) -> str:
    path = f"{os.fspath(error.filename)!r}" if isinstance(error.filename, str | os.PathLike) else ""
    match error.errno:
        case errno.EADDRINUSE:
            return f"{_reason(error)}. Stop the process that uses the port, or choose another port."
        case errno.EACCES | errno.EPERM:
            return f"Permission denied{_colon(path)}. Change the permissions (chown, chmod) or choose another path."
        case errno.ENOSPC | errno.EDQUOT:
            return f"No space left on the disk{_colon(path)}. Free some space or choose another path."
        case errno.EROFS:
            return f"Read-only file system{_colon(path)}. Choose another path."
        case errno.ENOENT:
            return f"File not found{_colon(path)}. Check the path."
        case errno.EISDIR:
            return f"{path or 'The path'} is a directory. Choose a file."
        case errno.ENOTDIR | errno.EEXIST:
            return f"{path or 'The path'} is not a directory. Choose another path."
        case errno.EMFILE | errno.ENFILE:
            return "Too many open files. Raise the limit (ulimit -n 100000) and try again."
    return f"{_reason(error)}{_colon(path)}."


def _colon(path: str) -> str:
    return f": {path}" if path else ""


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason[:1].upper() + reason[1:]
