"""Typed values: what Kafka's ConfigDef takes, and how it prints it back. Compared with Apache Kafka 4.3.1."""

import math

import pytest

from odradek.config.values import ConfigType, ConfigValue, InvalidValue, format_value, parse_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, " 5 ", 5),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, "-2147483648", -(1 << 31)),
        (ConfigType.INT, "٣", 3),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.BOOLEAN, " false", False),
        (ConfigType.DOUBLE, "1e-1f", 0.1),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "5.", 5.0),
        (ConfigType.DOUBLE, "Infinity", math.inf),
        (ConfigType.DOUBLE, "1e999", math.inf),
        (ConfigType.STRING, "  a b ", "a b"),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "a,", ("a", "")),
        (ConfigType.PASSWORD, "secret", "secret"),
    ],
)
def test_valid_values_are_parsed(kind: ConfigType, text: str, value: ConfigValue) -> None:
    assert parse_value("x", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "1.0", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "0x10", "Not a number of type INT"),
        (ConfigType.INT, "--1", "Not a number of type INT"),
        (ConfigType.INT, "9" * 100_000, "Not a number of type INT"),
        (ConfigType.SHORT, "40000", "Not a number of type SHORT"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.DOUBLE, "", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "abc", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_000", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "nan", "Not a number of type DOUBLE"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.BOOLEAN, "", "Expected value to be either true or false"),
        (ConfigType.BOOLEAN, "1", "Expected value to be either true or false"),
    ],
)
def test_invalid_values_are_rejected(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_value("some.config", kind, text)
    assert str(caught.value) == f"Invalid value {text} for configuration some.config: {reason}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        ("a", "a"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1000000.0, "1000000.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (123456789.125, "1.23456789125E8"),
        (9007199254740992.0, "9.007199254740992E15"),
        (1e21, "1.0E21"),
        (0.002, "0.002"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-0.00012, "-1.2E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_values_are_printed_as_java_prints_them(value: ConfigValue, text: str | None) -> None:
    assert format_value(value) == text
