"""The runner of documentation snippets parses pages and runs blocks as it says."""

import sys
from pathlib import Path

import pytest

from tools.snippets import SnippetFailed, check_output, parse, run_page

PYTHON = Path(sys.executable)

PAGE = """# Title

```sh
echo one
```

## Second

<!-- snippet skip: shown only -->
```sh
false
```
<!-- snippet
file: orders.json
-->

```json
{}
```
Text with an indented block:

    ```python
    print(1)
    ```
"""


def test_blocks_have_sections_languages_and_directives() -> None:
    first, second, third, fourth = parse(PAGE)
    assert (first.line, first.section, first.language, first.text) == (3, "Title", "sh", "echo one\n")
    assert (second.section, second.directives, second.runs) == ("Second", {"skip": "shown only"}, False)
    assert (third.language, third.directives["file"]) == ("json", "orders.json")
    assert (fourth.text, fourth.runs) == ("print(1)\n", True)


@pytest.mark.parametrize("comment", ["skip:", "instead: ls", "skipped: because"])
def test_incomplete_comments_are_errors(comment: str) -> None:
    with pytest.raises(ValueError, match="snippet comment"):
        parse(f"<!-- snippet {comment} -->\n```sh\nls\n```\n")


def test_expected_output_must_appear_in_order() -> None:
    check_output("one …\ntwo  three\n", "zero\none 1\ntwo three\n")
    with pytest.raises(SnippetFailed, match="'one'"):
        check_output("two\none\n", "one\ntwo\n")


def run(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    run_page(page, PYTHON)


def test_blocks_share_a_directory_and_an_interpreter(tmp_path: Path) -> None:
    run(
        tmp_path,
        "<!-- snippet setup: echo hidden > a -->\n<!-- snippet file: b -->\n```text\nshown\n```\n```sh\ncat a b\n```\n"
        "<!-- snippet output -->\n```text\nhidden\nshown\n```\n"
        "```python\nx = 1\n```\n```python\nprint(x + 1)\n```\n<!-- snippet output -->\n```text\n2\n```\n",
    )


def test_ports_are_replaced_and_restored(tmp_path: Path) -> None:
    run(
        tmp_path,
        "```sh\ntest 127.0.0.1:$((9000 + 92)) != 127.0.0.1:9092\necho 9092\n```\n"
        "<!-- snippet output -->\n```text\n9092\n```\n",
    )


def test_background_command_is_left_running_and_stopped(tmp_path: Path) -> None:
    run(
        tmp_path,
        "<!-- snippet background: up -->\n```sh\necho $$ > pid; echo up; exec sleep 60\n```\n"
        "```sh\nkill -0 $(cat pid)\n```\n<!-- snippet stop -->\n```sh\n! kill -0 $(cat pid) 2>/dev/null\n```\n",
    )


@pytest.mark.parametrize("block", ["```sh\nfalse\ntrue\n```", "```python\n1 / 0\n```"])
def test_failing_block_is_reported_with_page_and_line(tmp_path: Path, block: str) -> None:
    with pytest.raises(SnippetFailed, match=r"page\.md:3: "):
        run(tmp_path, f"# Title\n\n{block}\n")


def test_background_command_that_ends_early_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SnippetFailed, match="does not contain 'ready'"):
        run(tmp_path, "<!-- snippet background: ready -->\n```sh\necho failed\n```\n")


def test_page_without_snippets_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SnippetFailed, match="nothing to run"):
        run(tmp_path, "# Title\n")
