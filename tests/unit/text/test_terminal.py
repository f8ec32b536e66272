import json

import pytest

from odradek.text.terminal import json_line, neutralise

HOSTILE = [
    "\x1b[2J\x1b[H",  # clears the screen
    "\x1b]0;title\x07",  # sets the window title
    "\x9b31m",  # the same as an escape and a bracket, in one character
    "\r\n\x08",
    "\x7f",
    "\u202e\u2066",  # reverses the direction of the text
    "\u2028",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_are_escaped(text: str) -> None:
    shown = neutralise(text)
    assert shown.isprintable()
    assert "\\" in shown


@pytest.mark.parametrize("text", ["", "plain", "Straße 北京 🎉", "tab is a control character, a space is none"])
def test_other_text_is_unchanged(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize("text", [*HOSTILE, "Straße 北京 🎉", '"quoted\\'])
def test_json_lines_are_printable_and_decode_unchanged(text: str) -> None:
    line = json_line({"value": text})
    assert line.isprintable()
    assert json.loads(line) == {"value": text}


def test_a_lone_surrogate_can_be_printed() -> None:
    assert neutralise("\udcff").encode() == b"\\udcff"
    json_line("\udcff").encode()
