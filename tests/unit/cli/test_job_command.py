from pathlib import Path

import pytest

from odradek.cli.job_command import parse_job_command
from odradek.pipelines.job_command import JobCommand
from odradek.text.errors import UserError


def parse(text: str) -> JobCommand:
    return parse_job_command(text, "--job")


def test_a_job_command_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = parse("odradek job ingest orders 'my table' --follow --conf a.secret=b")
    assert found.arguments == ("ingest", "orders", "my table", "--follow", "--conf", "a.secret=b")
    assert (found.kind, found.name, found.topic, found.table) == ("ingest", "orders", "orders", tmp_path / "my table")
    assert "secret" not in str(found)
    assert parse("ingest orders t --name other").name == "other"
    assert str(parse("job audit orders t --dead-letters dead")) == "audit orders"


def test_the_state_directory_of_a_load(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("{}\n")
    assert parse(f"load {tmp_path} orders").table == tmp_path
    of_file = parse(f"load {tmp_path}/rows.json orders")
    assert (of_file.table, of_file.name) == (tmp_path, "load-orders")
    assert parse(f"load {tmp_path} orders --state /elsewhere").table == Path("/elsewhere")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "'' is not a job. Use `ingest TOPIC TABLE`"),
        ("ingset orders t", "'ingset' is not a job"),
        ("stop t", "'stop' is not a job"),
        ("ingest 'orders", "No closing quotation."),
        ("ingest orders", "Missing argument"),
        ("ingest orders t --folow", "No such option"),
        ("ingest orders t --interval soon", "odradek job ingest --help"),
        ("audit orders", "missing table"),
        ("audit orders --against copies", "Specify a table"),
        ("ingest --help", "Use `ingest TOPIC TABLE`"),
    ],
)
def test_invalid_job_commands_are_rejected(text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert str(caught.value).startswith("--job: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
