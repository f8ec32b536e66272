"""The generated references are complete."""

import re

from odradek.config.definitions import BROKER_CONFIGS, TOPIC_CONFIGS
from odradek.config.group_config import OF_BROKER, OWN
from tools.references import _root, cli_reference, command_paths, config_reference, walk_commands


def test_every_command_is_in_the_cli_reference() -> None:
    page = cli_reference()
    paths = command_paths()
    assert {"odradek up", "odradek topic create", "odradek job ingest", "odradek pipeline run"} <= set(paths)
    assert all(f"# `{path}`\n" in page for path in paths if path != "odradek")


def test_every_visible_option_is_in_the_cli_reference() -> None:
    page = cli_reference()
    for path, command in walk_commands("odradek", _root()):
        for parameter in command.params:
            if path != "odradek" and parameter.param_type_name == "option" and not parameter.hidden:
                assert "--help" in parameter.opts or all(f"`{name}`" in page for name in parameter.opts), path


def test_every_config_is_in_the_config_reference() -> None:
    page = config_reference()
    names = [*BROKER_CONFIGS, *TOPIC_CONFIGS, *OF_BROKER, *OWN]
    assert len(names) > 300
    assert not [name for name in names if not re.search(rf"^\| `{re.escape(name)}`(<br>| \|)", page, re.MULTILINE)]


def test_config_rows_state_support_default_dynamic_and_differences() -> None:
    rows = {row.split("`")[1]: row for row in config_reference().splitlines() if row.startswith("| `")}
    assert "| **yes** | `300` | no |" in rows["broker.disconnect.grace.ms"]
    assert "Kafka does not have this config" in rows["broker.disconnect.grace.ms"]
    assert "| **yes** | `604800000` | yes |" in rows["retention.ms"]
    assert "| no effect |" in rows["num.io.threads"]
    assert "| **yes** |" in rows["authorizer.class.name"]
    assert all(row.count(" | ") >= 3 for row in rows.values())


def test_table_cells_contain_no_unescaped_pipes() -> None:
    for page in (cli_reference(), config_reference()):
        columns = 0
        for line in page.splitlines():
            if not line.startswith("|"):
                columns = 0
                continue
            count = line.replace("\\|", "").count("|")
            assert columns in (0, count), line
            columns = count
