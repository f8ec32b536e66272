"""What config providers read on a real machine: the environment, and small regular files."""

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

_BYTES_MAX: Final = 1 << 20


class HostProviderSources:
    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read_file(self, path: str) -> str:
        """Read a regular file of at most 1 MiB as UTF-8. Raises OSError or ValueError."""
        # Opening a named pipe without O_NONBLOCK would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "Not a regular file", path)
            content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise ValueError("the file is too large")
        return content.decode("utf-8")
