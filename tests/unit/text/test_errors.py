import errno
import os
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.address import Address
from odradek.client.errors import ConnectionFailed, TimedOut, UnknownTopic, Unreachable
from odradek.client.explain import explain
from odradek.text.errors import UserError, nearest


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UserError("as it is"), "as it is"),
        (UnknownTopic("ordres", ["orders", "payments"]), "Did you mean 'orders'?"),
        (UnknownTopic("x", ["orders"]), "odradek topic create x"),
        (Unreachable([ConnectionFailed(Address("a", 1), "refused")]), "Check --bootstrap"),
        (TimedOut("listing topics", 10, "why"), "Listing topics timed out after 10 s (why)"),
        (TimedOut("listing groups", 10, "none", ErrorCode.coordinator_not_available), "enough brokers are running"),
        (KafkaError(ErrorCode.invalid_config, "Invalid value\n x."), "Invalid value x (INVALID_CONFIG)"),
        (KafkaError(ErrorCode.unknown_server_error), "unknown server error"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "choose another port"),
        (PermissionError(errno.EACCES, "Permission denied", "/data"), "Permission denied: '/data'"),
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "No space left on the disk: '/data/x'"),
        (OSError(errno.EROFS, "Read-only file system", "/data"), "Read-only"),
        (FileNotFoundError(errno.ENOENT, "No such file", "server.properties"), "File not found: 'server.properties'"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit"),
        (OSError(errno.EIO, "Input/output error", "/d"), "Input/output error: '/d'."),
        (OSError("Without a number."), "Without a number."),
    ],
)
def test_every_error_is_one_line(error: Exception, expected: str) -> None:
    line = explain(error)
    assert line is not None
    assert expected in line
    assert "\n" not in line


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_is_one_line_with_its_name(code: ErrorCode) -> None:
    line = explain(KafkaError(code, "message"))
    assert line is not None
    assert code.name.upper() in line
    assert "\n" not in line


def test_bugs_keep_their_traceback() -> None:
    assert explain(ZeroDivisionError()) is None
    assert explain(AssertionError("x")) is None


def test_real_os_errors_are_explained(tmp_path: Path) -> None:
    for path, expected in ((tmp_path / "none", "File not found"), (tmp_path, "is a directory")):
        try:
            os.open(path, os.O_WRONLY)
        except OSError as error:
            assert expected in str(explain(error))


def test_nearest_finds_misspelled_names() -> None:
    assert nearest("ORDRES", ["orders", "payments"]) == "orders"
    assert nearest("zzz", ["orders"]) is None
    assert nearest("x", []) is None
