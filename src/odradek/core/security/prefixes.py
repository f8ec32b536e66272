"""A set of prefixes that finds those of a name without a scan of the set.

The prefixes are sorted, and each refers to its parent: the longest other prefix in the set that it starts with. All
prefixes of a name are ancestors of the prefix that sorts last before the name, or that prefix itself.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from typing import Final

CHANGED_ONE_BY_ONE_MAX: Final = 100
"""Building the whole set is quicker than more single changes."""


class Prefixes:
    __slots__ = ("_parents", "_sorted")

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        self._sorted: list[str] = []
        self._parents: dict[str, str | None] = {}
        self._build(prefixes)

    def __contains__(self, prefix: object) -> bool:
        return prefix in self._parents

    def of(self, name: str) -> list[str]:
        """The prefixes that the name starts with, the longest first."""
        position = bisect_right(self._sorted, name)
        if not position:
            return []
        parents = self._parents
        prefix: str | None = self._sorted[position - 1]
        while prefix is not None and not name.startswith(prefix):
            prefix = parents[prefix]
        found = []
        while prefix is not None:
            # Whatever starts with a prefix starts with its parent too.
            found.append(prefix)
            prefix = parents[prefix]
        return found

    def change(self, added: Collection[str], removed: Collection[str]) -> None:
        """`added` are not in the set, and `removed` are."""
        if len(added) + len(removed) > CHANGED_ONE_BY_ONE_MAX:
            self._build((self._parents.keys() - removed) | set(added))
            return
        for prefix in removed:
            self._remove(prefix)
        for prefix in added:
            self._add(prefix)

    def _build(self, prefixes: Iterable[str]) -> None:
        self._sorted = sorted(prefixes)
        parents: dict[str, str | None] = {}
        self._parents = parents
        prefix: str | None = None
        for following in self._sorted:
            while prefix is not None and not following.startswith(prefix):
                prefix = parents[prefix]
            parents[following] = prefix
            prefix = following

    def _add(self, prefix: str) -> None:
        assert prefix not in self._parents, "each prefix is in the set once"
        found = self.of(prefix)
        parent = found[0] if found else None
        position = bisect_left(self._sorted, prefix)
        self._sorted.insert(position, prefix)
        self._parents[prefix] = parent
        self._adopt(position + 1, prefix, former=parent, parent=prefix)

    def _remove(self, prefix: str) -> None:
        position = bisect_left(self._sorted, prefix)
        assert self._sorted[position] == prefix, "only a prefix of the set can be removed"
        del self._sorted[position]
        self._adopt(position, prefix, former=prefix, parent=self._parents.pop(prefix))

    def _adopt(self, position: int, start: str, *, former: str | None, parent: str | None) -> None:
        """Changes the parent of those that start with `start`, which follow each other from `position`."""
        parents = self._parents
        while position < len(self._sorted) and (prefix := self._sorted[position]).startswith(start):
            if parents[prefix] == former:
                parents[prefix] = parent
            position += 1
