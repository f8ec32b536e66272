from pathlib import Path

import pytest

from odradek.cli.job_command import parse_job_command
from odradek.pipelines.job_command import JobCommand
from odradek.text.errors import UserError


def parsed(text: str) -> JobCommand:
    return parse_job_command(text, "--job")


def test_a_job_is_known_by_its_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = parsed("odradek job ingest orders 'my table' --follow --conf a.secret=b")
    assert found.arguments == ("ingest", "orders", "my table", "--follow", "--conf", "a.secret=b")
    assert (found.kind, found.name, found.topic, found.table) == ("ingest", "orders", "orders", tmp_path / "my table")
    assert "secret" not in str(found)
    assert parsed("ingest orders t --name other").name == "other"
    assert str(parsed("job audit orders t --dead-letters dead")) == "audit orders"


def test_where_a_load_keeps_its_state(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("{}\n")
    assert parsed(f"load {tmp_path} orders").table == tmp_path
    of_file = parsed(f"load {tmp_path}/rows.json orders")
    assert (of_file.table, of_file.name) == (tmp_path, "load-orders")
    assert parsed(f"load {tmp_path} orders --state /elsewhere").table == Path("/elsewhere")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'nothing' is no job: write `ingest TOPIC TABLE`"),
        ("ingset orders t", "'ingset' is no job"),
        ("stop t", "'stop' is no job"),
        ("ingest 'orders", "no closing quotation in the command"),
        ("ingest orders", "missing argument"),
        ("ingest orders t --folow", "no such option"),
        ("ingest orders t --interval soon", "odradek job ingest --help"),
        ("audit orders", "which table?"),
        ("audit orders --against copies", "name a table"),
        ("ingest --help", "write `ingest TOPIC TABLE`"),
    ],
)
def test_what_is_no_job_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        parsed(text)
    assert str(refused.value).startswith("--job: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
