"""The words check finds unwanted words in user-facing text only."""

from pathlib import Path

import pytest

from tools import words


@pytest.mark.parametrize("phrase", ["whoever", "Nobody", "is told", "goes on", "mended", "taken up", "All is well"])
def test_finds_phrase_whatever_its_case(phrase: str) -> None:
    assert words.find_words(f"Here {phrase} for once.")


@pytest.mark.parametrize("text", ["silently", "executes", "tellurium", "amended", "tasks", "unanswered", "executed"])
def test_ignores_parts_of_longer_words(text: str) -> None:
    assert not words.find_words(text)


def test_every_phrase_has_advice() -> None:
    for phrase in ("whoever", "told", "is told", "answered", "asks for", "cut off", "evening out"):
        assert words._advice(phrase)


def test_page_line_is_reported_with_its_number(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nThe broker is told.\n")
    (finding,) = words.check_file(page)
    assert (finding.line, finding.words) == (3, "is told")
    assert ":3: " in str(finding)


def test_exempt_line_is_not_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Nobody reads this. <!-- words: allow -->\n")
    assert not words.check_file(page)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of a user-facing package."""
    monkeypatch.setattr(words, "ROOT", tmp_path)
    path = tmp_path / "src" / "odradek" / "cli" / "topic.py"
    path.parent.mkdir(parents=True)
    return path


def test_string_literals_of_user_facing_packages_are_checked(module: Path) -> None:
    module.write_text('HELP = "Ask the broker."\n')
    assert [finding.words for finding in words.check_file(module)] == ["Ask"]


def test_identifiers_are_not_text(module: Path) -> None:
    module.write_text('self.on("asked", props["told"])\n')
    assert not words.check_file(module)


def test_people_may_be_asked() -> None:
    assert not words.find_words("Ask the cluster's administrator for access.")
    assert words.find_words("Ask the broker for access.")


def test_docstrings_and_comments_are_not_checked(module: Path) -> None:
    module.write_text('"""Nobody."""\nX = 1\n"""Nobody."""\n# nobody\ndef f() -> None:\n    """Nobody."""\n')
    assert not words.check_file(module)


def test_docstrings_of_commands_are_help_texts(module: Path) -> None:
    module.write_text(
        '@app.command()\ndef create() -> None:\n    """Nobody is."""\n\ndef command() -> None:\n    """Nobody is."""\n'
    )
    assert len(words.check_file(module)) == 2


def test_exemption_covers_a_string_of_several_lines(module: Path) -> None:
    module.write_text('HELP = (\n    "Ask "  # words: allow\n    "the broker"\n)\n')
    assert not words.check_file(module)


def test_log_and_error_messages_are_checked_everywhere(module: Path) -> None:
    path = module.parents[1] / "node" / "node.py"
    path.parent.mkdir()
    path.write_text(
        'logger.info("nobody %s", 1)\n_log.warning(f"whoever {1}")\nNAME = "nobody"\n'
        'def f() -> None:\n    raise ValueError(f"the broker is told {1}")\n'
    )
    assert [finding.line for finding in words.check_file(path)] == [1, 2, 5]


def test_exit_code_is_one_if_anything_was_found(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module.write_text('HELP = "Nobody reads."\n')
    assert words.main([str(module)]) == 1
    assert "1 findings" in capsys.readouterr().out
    module.write_text('HELP = "No consumer groups."\n')
    assert words.main([str(module)]) == 0
