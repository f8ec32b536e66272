"""Log lines: a message is one line, whatever it contains."""

import json
import logging
import sys

import pytest

from odradek.host.log_lines import JsonLines, TextLines


def shown(record: logging.LogRecord) -> dict[str, object]:
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def record(message: str, *arguments: object, **more: object) -> logging.LogRecord:
    values: dict[str, object] = {"name": "odradek.node", "levelno": logging.WARNING, "levelname": "WARNING"}
    values |= {"msg": message, "args": arguments, "created": 1700000000.25, "threadName": "MainThread"}
    return logging.makeLogRecord(values | more)


def test_json_log_line() -> None:
    assert shown(record("broker %d is %s", 3, "fenced")) == {
        "timestamp": "2023-11-14T22:13:20.250+00:00",
        "level": "WARNING",
        "logger": "odradek.node",
        "thread": "MainThread",
        "message": "broker 3 is fenced",
    }


def test_message_with_line_breaks_stays_on_one_line() -> None:
    assert shown(record('a\n{"level": "ERROR"}\x1b[31m\r'))["message"] == 'a\n{"level": "ERROR"}\x1b[31m\r'


def test_exceptions_and_extra_fields_are_logged() -> None:
    try:
        raise ValueError("what happened")
    except ValueError:
        found = shown(record("it failed", exc_info=sys.exc_info(), partition="orders-0", cause=ValueError("x")))
    assert "ValueError: what happened" in str(found["exception"])
    assert (found["partition"], found["cause"]) == ("orders-0", "x")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "a\n2026-01-01 00:00:00,000 INFO odradek.node: forged",
            r"a\n2026-01-01 00:00:00,000 INFO odradek.node: forged",
        ),
        ("a\r\nb", r"a\r\nb"),
        ("\x1b[2J\x00\x7f\x9b", r"\x1b[2J\x00\x7f\x9b"),
        ("a\u2028b\u2029c\u0085d", r"a\u2028b\u2029c\x85d"),
        ("tab\tand ü", r"tab\tand ü"),
    ],
)
def test_text_from_the_network_cannot_start_a_line(name: str, shown: str) -> None:
    line = TextLines().format(record("Denied on topic %s", name))
    assert line.partition(" ")[2].partition(" ")[2] == f"WARNING odradek.node: Denied on topic {shown}"


def test_traceback_follows_the_line() -> None:
    try:
        raise ValueError("what happened")
    except ValueError:
        first, *rest = TextLines().format(record("it\nfailed", exc_info=sys.exc_info())).splitlines()
    assert first.endswith(r"it\nfailed")
    assert rest[-1] == "ValueError: what happened"
