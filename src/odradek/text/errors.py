"""A mistake or a failure, told to a person in one line that ends with what to do about it."""

import errno
import os


class UserError(Exception):
    """Something a person can mend; the message is the whole line."""


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str | None:
    """What was probably meant."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def explain_os_error(error: OSError) -> str:
    path = f" {os.fspath(error.filename)!r}" if isinstance(error.filename, str | os.PathLike) else ""
    match error.errno:
        case errno.EADDRINUSE:
            return f"{_reason(error)}: stop what listens there, or choose another port"
        case errno.EACCES | errno.EPERM:
            return f"no permission for{path or ' this'}: give it to this user (chown, chmod), or choose another path"
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space left on the disk of{path or ' this path'}: free some, or choose another path"
        case errno.EROFS:
            return f"{path.strip() or 'the path'} lies on a read-only file system: choose another path"
        case errno.ENOENT:
            return f"there is no{path or ' such file'}: check the path"
        case errno.EISDIR:
            return f"{path.strip() or 'the path'} is a directory: name a file in it"
        case errno.ENOTDIR | errno.EEXIST:
            return f"{path.strip() or 'the path'} is not a directory: choose another path"
        case errno.EMFILE | errno.ENFILE:
            return "too many open files: raise the limit (ulimit -n 100000), and try again"
    return f"{_reason(error)}{':' if path else ''}{path}"


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]
