"""Java, Connect servers, and what Spark says when something fails, in one line."""

import socket
from pathlib import Path

import pytest

from odradek.cli.job import DEFAULT_MASTER, spark_settings
from odradek.pipelines.jobs.java import major_version
from odradek.pipelines.jobs.session import spark_line, without_secrets
from odradek.text.errors import UserError


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21"', 21),
        ("", None),
    ],
)
def test_javas_version(output: str, version: int | None) -> None:
    assert major_version(output) == version


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Traceback (most recent call last):\n  File\n"
            "odradek.client.errors.NotAuthenticated: Cannot authenticate with b:1: who is it?\n",
            "Cannot authenticate with b:1: who is it? Check the security settings in the --command-config file.",
        ),
        ("[TABLE_NOT_FOUND] There is none.\n== SQL ==\nx", "Spark failed: [TABLE_NOT_FOUND] There is none."),
        (
            '[PYTHON] failed: Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    raise x\n'
            "odradek.pipelines.spark.errors.DataLoss: offset 5 is gone: set it\n\tat org.apache.spark\n",
            "offset 5 is gone: set it",
        ),
        ("Traceback (most recent call last):\n  File\nKeyError\n", "KeyError"),
        ("", "Spark failed: Exception"),
    ],
)
def test_spark_errors_are_one_line(text: str, line: str) -> None:
    assert spark_line(Exception(text)) == line


@pytest.mark.needs("pyarrow")
def test_an_unreachable_connect_server_fails_at_once() -> None:
    with socket.socket() as taken:
        # The port is bound, but no process listens on it.
        taken.bind(("127.0.0.1", 0))
        message = f"Cannot connect to a Spark Connect server at 127.0.0.1:{taken.getsockname()[1]}"
        connect(f"sc://127.0.0.1:{taken.getsockname()[1]}", message)
    connect("http://localhost", "URL must start with 'sc://'")
    with pytest.raises(UserError, match="--master and --remote are mutually exclusive"):
        spark_settings("local[2]", None, "sc://localhost")


def test_a_token_is_never_shown() -> None:
    for url in ("sc://there:15002/;use_ssl=true;token=ungeziefer", "sc://there:15002/", "sc://there:15002"):
        assert without_secrets(url) == "sc://there:15002"
    with (
        pytest.raises(UserError) as raised,
        spark_settings(DEFAULT_MASTER, None, "http://there/;token=u").session("", Path()),
    ):
        pass
    assert "token" not in str(raised.value)


def connect(remote: str, message: str) -> None:
    settings = spark_settings(DEFAULT_MASTER, ["spark.sql.shuffle.partitions=2"], remote)
    with pytest.raises(UserError, match=message), settings.session("test", Path("spark.log")):
        pass
