"""Measures the authorizer with 100,000 ACLs, of which 10,000 are prefixed: checks with and without a kept result,
changes of the ACLs, and the time and memory to load them."""

import argparse
import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Final
from uuid import UUID

from bench.products import wide_console
from odradek.base.principal import USER, Principal
from odradek.core.metadata.persistent_map import PersistentMap
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.authorizer import Authorizer
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType

ACLS: Final = 100_000
PREFIXED: Final = 10_000
PRINCIPALS: Final = 1_000
CHECKS: Final = 200_000
CHANGES: Final = 200
HOST: Final = "10.0.0.1"

UNCACHED_MEDIAN_US_MAX: Final = 5.0
UNCACHED_P99_US_MAX: Final = 50.0
CACHED_US_MAX: Final = 0.7
_OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER)


def acls(choice: random.Random) -> dict[UUID, AccessControlEntry]:
    """Topics of teams, with a prefix per team and project, nested; some wildcards, some denials, some hosts."""
    return {UUID(int=number): _acl(choice, number) for number in range(1, ACLS + 1)}


def _acl(choice: random.Random, number: int) -> AccessControlEntry:
    is_prefixed = number <= PREFIXED
    name = _prefix(choice) if is_prefixed else "*" if number % 10_000 == 0 else _topic(choice)
    return AccessControlEntry(
        ResourceType.TOPIC.value,
        name,
        (PatternType.PREFIXED if is_prefixed else PatternType.LITERAL).value,
        "User:*" if choice.random() < 0.01 else f"User:{choice.randrange(PRINCIPALS)}",
        HOST if choice.random() < 0.1 else "*",
        choice.choice(_OPERATIONS).value,
        (Permission.DENY if choice.random() < 0.1 else Permission.ALLOW).value,
    )


def _prefix(choice: random.Random) -> str:
    return ".".join(_parts(choice)[: choice.randint(1, 3)]) + choice.choice((".", ""))


def _topic(choice: random.Random) -> str:
    return ".".join(_parts(choice)) + f".events-{choice.randrange(100)}"


def _parts(choice: random.Random) -> list[str]:
    return [f"team-{choice.randrange(100)}", f"project-{choice.randrange(100)}", f"stage-{choice.randrange(10)}"]


def measure_uncached(authorizer: Authorizer, choice: random.Random) -> list[float]:
    """The time of each check, in microseconds."""
    wanted = [
        (f"User:{choice.randrange(PRINCIPALS)}", HOST, choice.choice(_OPERATIONS), ResourceType.TOPIC, _topic(choice))
        for _ in range(CHECKS)
    ]
    now = time.perf_counter_ns
    took: list[float] = []
    gc.disable()
    for one in wanted:
        started = now()
        authorizer.decide(*one)
        took.append((now() - started) / 1000)
    gc.enable()
    return took


def measure_cached(authorizer: Authorizer, choice: random.Random) -> float:
    """The time of a check, in microseconds, over the topics of one client."""
    access = authorizer.access_of(Principal(USER, "1"), HOST)
    names = [_topic(choice) for _ in range(1000)]
    for name in names:
        access.allows(Operation.READ, ResourceType.TOPIC, name)
    rounds: list[float] = []
    allows, operation, kind = access.allows, Operation.READ, ResourceType.TOPIC
    for _ in range(50):
        started = time.perf_counter()
        for name in names:
            allows(operation, kind, name, logs_denial=False)
        rounds.append((time.perf_counter() - started) / len(names) * 1e6)
    return statistics.median(rounds)


def measure_changes(authorizer: Authorizer, before: PersistentMap[UUID, AccessControlEntry]) -> list[float]:
    """The time to add and to remove one prefixed ACL, in microseconds."""
    took: list[float] = []
    for number in range(CHANGES):
        entry_id = UUID(int=ACLS + 1 + number)
        entry = AccessControlEntry(ResourceType.TOPIC, f"new-{number}.", PatternType.PREFIXED, "User:1", "*", 3, 3)
        for after in (before.with_changes({entry_id: entry}), before):
            started = time.perf_counter()
            authorizer.update(after, [entry_id])
            took.append((time.perf_counter() - started) * 1e6)
    return took


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.authorizer", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of the ACLs and checks (default: 1)")
    choice = random.Random(parser.parse_args().seed)
    console = wide_console()
    entries = PersistentMap(acls(choice).items())
    load_ms = _milliseconds(lambda: _loaded(entries))
    tracemalloc.start()
    authorizer = _loaded(entries)
    mebibytes = tracemalloc.get_traced_memory()[0] / (1 << 20)
    tracemalloc.stop()
    uncached = statistics.quantiles(measure_uncached(authorizer, choice), n=100)
    cached = measure_cached(authorizer, choice)
    change = statistics.quantiles(measure_changes(authorizer, entries), n=100)
    console.print(f"{ACLS} ACLs, {PREFIXED} of them prefixed: loaded in {load_ms:.0f} ms, {mebibytes:.0f} MiB")
    console.print(
        f"uncached check: median {uncached[49]:.2f} us (target ≤ {UNCACHED_MEDIAN_US_MAX}), "
        f"p99 {uncached[98]:.2f} us (target ≤ {UNCACHED_P99_US_MAX})"
    )
    console.print(f"cached check: {cached:.2f} us (target ≤ {CACHED_US_MAX})")
    console.print(f"change of one prefixed ACL: median {change[49]:.0f} us, p99 {change[98]:.0f} us")
    has_met = uncached[49] <= UNCACHED_MEDIAN_US_MAX and uncached[98] <= UNCACHED_P99_US_MAX and cached <= CACHED_US_MAX
    return 0 if has_met else 1


def _loaded(entries: PersistentMap[UUID, AccessControlEntry]) -> Authorizer:
    authorizer = Authorizer(frozenset({"User:admin"}))
    authorizer.load(entries)
    authorizer.set_ready()
    return authorizer


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    sys.exit(main())
