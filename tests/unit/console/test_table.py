from odradek.console.readings.table import Cell, Row, inert, link_to, page_of


def test_page_number_beyond_the_end_gives_the_last_page() -> None:
    page = page_of(list(range(60)), 9)
    assert (page.number, page.count, list(page.items)) == (3, 3, list(range(50, 60)))
    assert page.sentence == "51 to 60 of 60"


def test_empty_table_has_one_empty_page() -> None:
    page = page_of([], 5)
    assert (page.number, page.count, page.total) == (1, 1, 0)


def test_links_quote_names() -> None:
    assert link_to("groups", "a/b?c#d\x00") == "/groups/a%2Fb%3Fc%23d%00"
    assert link_to("topics", search="a&b", page=None) == "/topics?search=a%26b"


def test_control_characters_are_escaped_and_long_text_is_truncated() -> None:
    assert inert("a\x00\u202eb<i>") == "a\\x00\\u202eb<i>"
    assert len(inert("x" * 10_000)) < 2100


def test_row_serializes_to_json() -> None:
    row = Row("k", {"a": "text", "b": Cell("more", "/there")}, ("Go",))
    assert row.as_json() == {
        "key": "k",
        "cells": {
            "a": {"text": "text", "link": None, "tone": None},
            "b": {"text": "more", "link": "/there", "tone": None},
        },
        "actions": ["Go"],
    }
