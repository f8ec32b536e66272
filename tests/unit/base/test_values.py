from dataclasses import fields, replace

import pytest

from odradek.base.values import named_value, value


@value
class Point:
    x: int
    y: int = 0


@named_value
class Named:
    x: int
    y: int = 0


@named_value
class Longer(Named):
    z: tuple[int, ...] = ()


@value
class Other:
    x: int
    y: int = 0


def test_equal_by_what_they_hold_and_what_they_are() -> None:
    assert Point(1, 2) == Point(1, 2)
    assert Point(1, 2) != Point(1, 3)
    others: list[object] = [Other(1, 2), (1, 2)]
    assert Point(1, 2) not in others
    assert Longer(x=1, z=(2,)) == Longer(x=1, z=(2,))
    assert Longer(x=1) != Named(x=1)


def test_equal_values_are_one_dictionary_key() -> None:
    assert {Point(1, 2): "found"}[Point(1, 2)] == "found"
    assert len({Named(x=1), Named(x=1), Named(x=2)}) == 2


def test_repr_is_that_of_a_dataclass() -> None:
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert repr(Longer(x=1, z=(2,))) == "Longer(x=1, y=0, z=(2,))"


def test_named_value_takes_keyword_arguments_only() -> None:
    with pytest.raises(TypeError):
        Named(1)  # type: ignore[call-arg]


def test_values_are_dataclasses() -> None:
    assert replace(Point(1, 2), y=5) == Point(1, 5)
    assert [field.name for field in fields(Longer(x=1))] == ["x", "y", "z"]
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)


def test_values_have_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined]
    assert not hasattr(Point(1), "__dict__")
