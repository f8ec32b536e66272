import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.console.queries.expression import InvalidExpression, Subject, parse
from odradek.records.record import Record

ORDER = Subject(
    TopicPartition("orders", 3),
    Record(
        b"user-7",
        b'{"amount": 12.5, "tags": ["new", "Late"], "by": {"first name": "Ann"}, "paid": true, "note": null}',
        1_700_000_000_000,
        (("trace", b"77"), ("blob", b"\xff")),
        41,
    ),
)


def holds(text: str, subject: Subject = ORDER) -> bool:
    return parse(text)(subject)


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 10",
        "value.amount == 12.5 and offset == 41",
        'key ~ "USER"',
        "key == 'user-7' and not (partition != 3)",
        'headers.trace == "77"',
        "headers.trace == 77",
        'headers["trace"] >= "7"',
        'value.tags ~ "new"',
        "value.tags[1] == 'Late' and value.tags[-1] ~ 'late'",
        'value.by["first name"] == "Ann"',
        "value.paid",
        "value.paid == true and value.note == null",
        "not value.note",
        "offset < 1 or timestamp >= 1.7e12",
        "not not key",
        "size > 80",
        'value ~ "amount"',
        "headers.blob ~ 'xff'",
        r'key != "user-\"7"',
    ],
)
def test_expression_matches_record(text: str) -> None:
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "value.missing > 1",
        "value.missing == null",
        "value.missing != 1",
        "value.missing[0].deeper == value.missing",
        "value.amount > 'text'",
        "value.paid == 1",
        "value.tags[9] == 1",
        "key.inside == 1",
        "headers.none",
        "offset.inside",
        "value < 3",
    ],
)
def test_expression_on_missing_field_is_false_without_error(text: str) -> None:
    assert not holds(text)


def test_expression_accepts_null_deeply_nested_and_invalid_values() -> None:
    for value in (None, b"[" * 100_000, b"{", b"\xff\xfe", b""):
        subject = Subject(TopicPartition("t", 0), Record(None, value))
        assert not holds("value.a == 1 or value[0] > 3 or key", subject)
        assert holds("value == null", subject) is (value is None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "The expression is empty."),
        ("value.amount >", "At the end: unexpected end of expression."),
        ("amount > 3", "At 'amount > 3': expected one of key, value"),
        ("value > 3 3", "At '3': unexpected input."),
        ("(value", "At the end: expected )."),
        ("value[key]", "At 'key]': expected a number or a quoted string"),
        ("value.3", "At '3': expected a name."),
        ('__import__("os").system("true")', "At '__import__"),
        ("key == 'open", 'At "\'open": unexpected character.'),
        ("value; value", "At '; value': unexpected character."),
        ("(" * 100 + "key" + ")" * 100, "nested too deeply"),
        ("key " * 400, "at most 1,000 characters"),
    ],
)
def test_syntax_errors_report_their_position(text: str, why: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse(text)
    assert why in str(refused.value)


@given(st.text(alphabet="keyvalu.[]()<>=!~'\"\\ 0123-andort_", max_size=60))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        condition = parse(text)
    except InvalidExpression:
        return
    assert condition(ORDER) in (True, False)
