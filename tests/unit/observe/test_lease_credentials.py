"""The file with the principals that may acquire leases."""

import pytest

from odradek.observe.lease_credentials import WrongCredentials, parse_credentials


def test_lease_principals_and_their_topics() -> None:
    found = parse_credentials("# all\n\nspark 0123456789abcdef orders,pay-*\n  root\tfedcba9876543210 *\n")

    spark = found.find("spark", "0123456789abcdef")
    assert spark is not None and spark.name == "spark"
    assert [spark.may_read(topic) for topic in ("orders", "pay-", "pay-1", "order", "orders2", "pay")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    root = found.find("root", "fedcba9876543210")
    assert root is not None and root.may_read("anything")
    for name, secret in (("spark", "fedcba9876543210"), ("spark", ""), ("nobody", ""), ("", ""), ("spark", "ü")):
        assert found.find(name, secret) is None
    assert "0123" not in repr(spark)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("spark 0123456789abcdef", "line 2: expected a principal"),
        ("spark 0123456789abcdef a b", "line 2: expected a principal"),
        ("spark short *", "line 2: a secret needs at least 16"),
        ("sp:ark 0123456789abcdef *", "line 2: 'sp:ark' contains a colon"),
        ("root 0123456789abcdef *", "line 2: 'root' contains a colon or is a duplicate"),
    ],
)
def test_credential_errors_do_not_contain_the_secret(line: str, why: str) -> None:
    with pytest.raises(WrongCredentials, match=why) as wrong:
        parse_credentials(f"root fedcba9876543210 *\n{line}\n")
    assert "0123" not in str(wrong.value) and "short" not in str(wrong.value)
