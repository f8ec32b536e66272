"""JAAS entries, tokenized as Java does, without values in errors."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.jaas import JaasError, parse_entries, parse_login

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_plain_users_and_own_login() -> None:
    entry = parse_login(
        f"""{PLAIN} required
        username="admin" // the broker itself
        password='a"b' /* quoted */
        user_admin="a\\"b" user_o-dd.1="x=y;z" user_tab=\t"\\t\\101";""",
        "PLAIN",
    )
    assert entry.options["username"] == "admin"
    assert entry.options["password"] == 'a"b'
    assert entry.users() == {"admin": 'a"b', "o-dd.1": "x=y;z", "tab": "\tA"}


def test_words_need_no_quotes() -> None:
    assert parse_login(f"{SCRAM} REQUIRED username=abc1 password=a_b$c;", "SCRAM-SHA-512").options == {
        "username": "abc1",
        "password": "a_b$c",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected one login module, not 0"),
        (f"{PLAIN} required; {PLAIN} required;", "expected one login module, not 2"),
        (f"{PLAIN}", "no control flag"),
        (f"{PLAIN} needed;", "no valid control flag"),
        (f"{PLAIN} required password=12345;", "no value for password"),
        (f"{PLAIN} required password;", "no value for password"),
        (f"{PLAIN} required password=", "no value for password"),
        (f'{PLAIN} required password="secret"', "semicolon"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "cannot load the login module com.sun"),
        ("com.example.MyLoginModule required;", "cannot load the login module com.example.MyLoginModule"),
        (f"{SCRAM} required;", "ScramLoginModule does not log in with PLAIN"),
    ],
)
def test_errors_name_the_problem(text: str, problem: str) -> None:
    with pytest.raises(JaasError, match=problem) as failure:
        parse_login(text, "PLAIN")
    assert "\n" not in str(failure.value)
    assert "secret" not in str(failure.value)
    assert "12345" not in str(failure.value)


def test_repr_has_no_values() -> None:
    assert "secret" not in repr(parse_entries(f'{PLAIN} required password="secret";'))


@given(st.text(max_size=100))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(JaasError):
        parse_entries(text)
