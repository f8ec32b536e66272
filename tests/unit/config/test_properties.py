"""The .properties format, as java.util.Properties reads it."""

import pytest

from odradek.config.properties import MalformedLine, Property, parse_properties


def entries(text: str) -> list[tuple[str, str]]:
    properties, malformed = parse_properties(text)
    assert not malformed
    return [(key, value) for key, value, _ in properties]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a\tb", "a", "b"),
        ("  a   =   b  ", "a", "b  "),
        ("a = = b", "a", "= b"),
        ("a =: b", "a", ": b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("=b", "", "b"),
        ("a\\=b=c", "a=b", "c"),
        ("a\\:b\\ c=d", "a:b c", "d"),
        ("a=b#c", "a", "b#c"),
        ("a=\\#b", "a", "#b"),
        ("a=\\t\\n\\r\\f\\q\\\\", "a", "\t\n\r\fq\\"),
        ("a=\\u00e4\\u20AC", "a", "ä€"),
        ("a=\\uD83D\\uDE00", "a", "\N{GRINNING FACE}"),
        ("listeners=PLAINTEXT://:9092", "listeners", "PLAINTEXT://:9092"),
        ("a=\\ b", "a", " b"),
    ],
)
def test_parse_one_line(line: str, key: str, value: str) -> None:
    assert entries(line) == [(key, value)]


def test_comments_and_blank_lines_are_ignored() -> None:
    assert entries("# one\n! two\n\n   \t\n  # three\na=b\n") == [("a", "b")]


def test_a_comment_ending_in_a_backslash_does_not_swallow_the_next_line() -> None:
    assert entries("# note \\\na=b") == [("a", "b")]


def test_continued_lines_are_joined_without_the_leading_blanks_of_the_next() -> None:
    assert entries("log.dirs=/a,\\\n    /b,\\\n\t/c\nx=y") == [("log.dirs", "/a,/b,/c"), ("x", "y")]


def test_a_continued_line_may_look_like_a_comment() -> None:
    assert entries("a=b\\\n#c") == [("a", "b#c")]


def test_lone_backslash_continues_nothing() -> None:
    assert entries("\\\n# comment\n\\\n\na=b\n\\") == [("a", "b")]


def test_two_backslashes_at_the_end_are_one_and_end_the_line() -> None:
    assert entries("a=b\\\\\nc=d") == [("a", "b\\"), ("c", "d")]


def test_a_backslash_at_the_end_of_the_file_is_dropped() -> None:
    assert entries("a=b\\") == [("a", "b")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_numbered_by_their_first_line(newline: str) -> None:
    text = newline.join(["# head", "a=1", "b=2,\\", " 3", "", "c=4"])
    assert parse_properties(text)[0] == [Property("a", "1", 2), Property("b", "2,3", 3), Property("c", "4", 6)]


def test_repeated_keys_are_all_there() -> None:
    assert entries("a=1\na=2") == [("a", "1"), ("a", "2")]


@pytest.mark.parametrize("escape", ["\\u12", "\\u12g4", "\\u", "\\u+123"])
def test_invalid_unicode_escapes_are_reported_with_their_line(escape: str) -> None:
    properties, malformed = parse_properties(f"a=1\nb={escape}\nc=3")
    assert [one.key for one in properties] == ["a", "c"]
    assert [(one.line, "four hexadecimal digits" in one.reason) for one in malformed] == [(2, True)]
    assert isinstance(malformed[0], MalformedLine)


def test_half_of_a_surrogate_pair_does_not_break_the_reader() -> None:
    assert entries("a=x\\uD83Dy") == [("a", "x\N{REPLACEMENT CHARACTER}y")]
