"""Rejects untrusted Avro schemas that could exhaust the stack or the memory. Pure.

The reader recurses in C without a limit, and creates as many zero-byte values as a schema demands. With the schemas
that pass, a payload becomes at most _VALUES_PER_BYTE values per byte plus _SURPLUS_MAX.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.pipelines.schemas.schema import Undecodable

_DEPTH_MAX: Final = 2000
_VALUES_PER_BYTE: Final = 16
_SURPLUS_MAX: Final = 1000


class _Cost(NamedTuple):
    depth: int
    surplus: int
    """The maximum number of values beyond those that their bytes allow for; negative if there are fewer."""


_WEIGHTLESS: Final = _Cost(0, 1)
_OF_A_BYTE: Final = _Cost(0, 1 - _VALUES_PER_BYTE)


class AvroBounds:
    """Raises Undecodable for an unsafe schema."""

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._named: Final = named
        self._open: Final[set[str]] = set()
        self._known: Final[dict[str, _Cost]] = {}
        self._is_recursive = False
        _reject_endless(named)
        self._depth, surplus = self._cost(schema)
        if self._depth > _DEPTH_MAX:
            raise Undecodable("its Avro schema is nested too deeply")
        if surplus > _SURPLUS_MAX:
            raise Undecodable(f"its Avro schema has more than {_SURPLUS_MAX:,} values that take no bytes")

    @property
    def payload_bytes_max(self) -> int | None:
        """None if unlimited. With a recursive schema every byte may be another level."""
        return _DEPTH_MAX // max(1, self._depth) if self._is_recursive else None

    def _cost(self, schema: Any) -> _Cost:
        match schema:
            case "null" | {"type": "null"} | {"type": "fixed", "size": 0}:
                return _WEIGHTLESS
            case str() if schema in self._named:
                return self._cost_of_name(schema)
            case list():
                return self._union([self._cost(one) for one in schema])
            case {"type": "array", "items": items}:
                return self._repeated_cost(self._cost(items))
            case {"type": "map", "values": values}:
                found = self._cost(values)
                # The key takes at least one byte.
                return self._repeated_cost(_Cost(found.depth, found.surplus + _OF_A_BYTE.surplus))
            case {"type": "record" | "error", "name": str(name)}:
                return self._cost_of_name(name, schema)
        return _OF_A_BYTE

    def _cost_of_name(self, name: str, schema: Any = None) -> _Cost:
        if name in self._open:
            self._is_recursive = True
            return _Cost(0, 0)
        if name not in self._known:
            self._open.add(name)
            self._known[name] = self._defined_cost(self._named[name] if schema is None else schema)
            self._open.discard(name)
        return self._known[name]

    def _defined_cost(self, schema: Any) -> _Cost:
        match schema:
            case {"type": "record" | "error", "fields": fields}:
                costs = [self._cost(one["type"]) for one in fields]
                depth = 1 + max((one.depth for one in costs), default=0)
                return _Cost(depth, 1 + sum(one.surplus for one in costs))
            case {"type": "fixed", "size": 0}:
                return _WEIGHTLESS
        return _OF_A_BYTE

    def _union(self, costs: list[_Cost]) -> _Cost:
        depth = 1 + max((one.depth for one in costs), default=0)
        return _Cost(depth, max((one.surplus for one in costs), default=0) + _OF_A_BYTE.surplus)

    def _repeated_cost(self, item: _Cost) -> _Cost:
        """The item count takes a few bytes, however large it is, so items must take bytes themselves."""
        if item.surplus > 0:
            raise Undecodable("its Avro schema has an array whose items take almost no bytes")
        return _Cost(1 + item.depth, _OF_A_BYTE.surplus)


def _reject_endless(named: Mapping[str, Any]) -> None:
    """A record that contains itself without a union or array in between has no finite value."""
    way: list[str] = []
    done: set[str] = set()

    def visit(name: str) -> None:
        if name in way:
            raise Undecodable(f"its Avro schema is endless: {name} contains itself")
        if name in done:
            return
        way.append(name)
        for held in _field_types(named[name]):
            if held in named:
                visit(held)
        way.pop()
        done.add(name)

    for name in named:
        visit(name)


def _field_types(schema: Any) -> Iterator[str]:
    """Yield the named types of a record's fields, except those inside unions, arrays and maps."""
    for one in schema.get("fields", ()) if isinstance(schema, dict) else ():
        match one["type"]:
            case str(name) | {"type": "record" | "error", "name": str(name)}:
                yield name
