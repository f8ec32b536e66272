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
        (UnknownTopic("ordres", ["orders", "payments"]), "did you mean 'orders'?"),
        (UnknownTopic("x", ["orders"]), "odradek topic create x"),
        (Unreachable([ConnectionFailed(Address("a", 1), "refused")]), "check --bootstrap"),
        (TimedOut("asking", 10, "why"), "(why)"),
        (TimedOut("asking", 10, "none", ErrorCode.coordinator_not_available), "look whether as many brokers run"),
        (KafkaError(ErrorCode.invalid_config, "Invalid value\n x."), "Invalid value x (INVALID_CONFIG)"),
        (KafkaError(ErrorCode.unknown_server_error), "unknown server error"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "choose another port"),
        (PermissionError(errno.EACCES, "Permission denied", "/data"), "no permission for '/data'"),
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "no space left on the disk of '/data/x'"),
        (OSError(errno.EROFS, "Read-only file system", "/data"), "read-only"),
        (FileNotFoundError(errno.ENOENT, "No such file", "server.properties"), "there is no 'server.properties'"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit"),
        (OSError(errno.EIO, "Input/output error", "/d"), "input/output error: '/d'"),
        (OSError("without a number"), "without a number"),
    ],
)
def test_every_mistake_is_one_line(error: Exception, expected: str) -> None:
    line = explain(error)
    assert line is not None
    assert expected in line
    assert "\n" not in line


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_refusal_of_a_cluster_is_one_line_that_names_it(code: ErrorCode) -> None:
    line = explain(KafkaError(code, "words"))
    assert line is not None
    assert code.name.upper() in line
    assert "\n" not in line


def test_defects_keep_their_traceback() -> None:
    assert explain(ZeroDivisionError()) is None
    assert explain(AssertionError("x")) is None


def test_real_errors_of_the_system(tmp_path: Path) -> None:
    for path, expected in ((tmp_path / "none", "there is no"), (tmp_path, "is a directory")):
        try:
            os.open(path, os.O_WRONLY)
        except OSError as error:
            assert expected in str(explain(error))


def test_the_nearest_name() -> None:
    assert nearest("ORDRES", ["orders", "payments"]) == "orders"
    assert nearest("zzz", ["orders"]) is None
    assert nearest("x", []) is None
