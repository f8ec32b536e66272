"""The pages agree with the code and with each other: links, commands, make targets and figures exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tools.references import _root, walk_commands
from tools.snippets import parse

ROOT = Path(__file__).parents[2]
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "ARCHITECTURE.md", "ROADMAP.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
GENERATED = {ROOT / "docs" / "reference" / name for name in ("cli.md", "configs.md")}
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)")
_TABLE_ROW = re.compile(r"^\|.*\|$")


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_to_files(page: Path) -> None:
    for target in _LINK.findall(_without_code(page.read_text())):
        if "://" not in target and not target.startswith("mailto:"):
            path = (page.parent / target).resolve()
            assert path in GENERATED or path.exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_tables_have_the_same_number_of_columns_in_every_row(page: Path) -> None:
    columns = 0
    for line in _without_code(page.read_text(), spans=True).splitlines():
        if not _TABLE_ROW.match(line):
            assert not line.startswith("|"), f"{page.name}: a table row without an end: {line}"
            columns = 0
            continue
        count = line.replace("\\|", "").count("|")
        assert columns in (0, count), f"{page.name}: {line}"
        columns = count


COMMANDS = dict(walk_commands("odradek", _root()))


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_commands_and_options_exist(page: Path) -> None:
    for block in parse(page.read_text()):
        if block.language == "sh":
            for words in odradek_commands(block.text):
                check_command(words)


def test_unknown_commands_and_options_are_found() -> None:
    check_command(["odradek", "topic", "create", "orders", "--partitions", "3", "-c", "a=b"])
    for wrong in (["odradek", "topics"], ["odradek", "topic", "create", "orders", "--partition"]):
        with pytest.raises(AssertionError):
            check_command(wrong)


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_python_blocks_compile(page: Path) -> None:
    for block in parse(page.read_text()):
        if block.language == "python":
            compile(block.text, str(page), "exec")


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        if page.name != "CHANGELOG.md":
            named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE))
            assert named <= targets, f"{page.name}: {named - targets}"


def test_figures_of_the_readme_are_in_the_benchmarks() -> None:
    readme, benchmarks = (ROOT / "README.md").read_text(), (ROOT / "docs" / "benchmarks.md").read_text()
    table = readme.split("## Compared with Apache Kafka")[1].split("\n\n")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert len(rows) >= 8
    for measure, *figures in rows:
        for figure in filter(None, figures):
            assert figure in benchmarks, f"{measure}: {figure}"


def odradek_commands(text: str) -> list[list[str]]:
    joined = text.replace("\\\n", " ")
    return [
        words
        for line in joined.splitlines()
        for part in re.split(r" \| | && |; |\$\(|\)", line)
        if (words := _words(part))[:1] == ["odradek"]
    ]


def check_command(words: list[str]) -> None:
    path, rest = words[0], words[1:]
    while rest and f"{path} {rest[0]}" in COMMANDS:
        path, rest = f"{path} {rest[0]}", rest[1:]
    command: Any = COMMANDS[path]
    assert rest == [] or not getattr(command, "commands", None) or rest[0].startswith("-"), f"no command {words}"
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if re.match(r"--?[a-zA-Z]", word):
            assert word.split("=")[0] in options | {"--help", "-h"}, f"{path} has no option {word}"


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part, comments=True)
    except ValueError:
        return []


def _without_code(text: str, *, spans: bool = False) -> str:
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "`code`", text) if spans else text
