"""Authentication, authorization and quotas: what nodes decided must follow from metadata that they had applied.

A node decides with the metadata that it had applied when the request began, or with anything committed since. If all
of these states deny a request, it must be denied; if all allow it, it must be allowed.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from odradek.core.metadata.records import DelegationTokenRecord
from odradek.sim.checkers.access_model import Rules, SecurityStates
from odradek.sim.checkers.violation import Violation
from odradek.sim.quorum_history import QuorumHistory
from odradek.sim.security_history import Decision, LoginAttempt, SecurityHistory, Usage

DENIED: Final = "a request that applied ACLs deny is denied"
ALLOWED: Final = "a request that applied ACLs allow is allowed"
REJECTED: Final = "a login needs the current password"
ACCEPTED: Final = "a login with the current password succeeds"
SAME_USER: Final = "re-authentication keeps the principal"
AUTHENTICATED: Final = "only authenticated clients are served"
FORWARDED: Final = "a forwarded request keeps the principal of its client"
QUOTAS: Final = "only clients with a quota are throttled"
LIMITED: Final = "clients that exceed their quota are throttled"
_PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
_KEPT_SECONDS: Final = 1.9
"""For so long a broker remembers what a client used: two windows of a second."""
_COVERED_SECONDS_MAX: Final = 3.0
"""The longest time by which it divides that, with the window before."""


def check_security(history: SecurityHistory, quorum: QuorumHistory, rules: Rules) -> Iterator[Violation]:
    for intrusion in history.intrusions:
        yield Violation(AUTHENTICATED, f"{intrusion.node} {intrusion.what}", intrusion.seconds)
    yield from _check_tokens(history, quorum)
    if not quorum.is_complete:
        # Some changes were only seen in a snapshot.
        return
    states = SecurityStates(quorum.committed)
    for login in history.logins:
        yield from _check_login(login, states, history)
    for decision in history.decisions:
        yield from _check_decision(decision, states, rules)
    yield from _check_usages(history.usages, states)


def _check_decision(decision: Decision, states: SecurityStates, rules: Rules) -> Iterator[Violation]:
    found = states.between(decision.floor, decision.ended)
    results = {
        any(state.allows(rules, decision.user, decision.host, check) for check in decision.any_of) for state in found
    }
    if decision.is_allowed not in results:
        rule, what = (DENIED, "allowed") if decision.is_allowed else (ALLOWED, "denied")
        offsets = f"with the ACLs of offset {found[0].offset} to {found[-1].offset}"
        yield Violation(rule, f"{decision} is {what} {offsets}", decision.ended)


def _check_login(login: LoginAttempt, states: SecurityStates, history: SecurityHistory) -> Iterator[Violation]:
    if login.former_user not in (None, login.user):
        if login.is_accepted:
            yield Violation(SAME_USER, f"{login} is accepted", login.ended)
        return
    current = {
        None if (salt := state.salt_of(login.user)) is None else history.password_of_salt.get(salt)
        for state in states.between(login.floor, login.ended)
    }
    if login.is_accepted and login.password not in current:
        yield Violation(REJECTED, f"{login} is accepted, and its password is one of {current}", login.ended)
    elif not login.is_accepted and current == {login.password}:
        yield Violation(ACCEPTED, f"{login} is rejected", login.ended)


def _check_tokens(history: SecurityHistory, quorum: QuorumHistory) -> Iterator[Violation]:
    recorded = {
        record.token_id: (batch.batch.last_offset, record)
        for batch in quorum.committed
        for record in batch.security
        if isinstance(record, DelegationTokenRecord)
    }
    for token in history.tokens:
        names = {token.owner, token.requester}
        if token.token_id in recorded:
            _, record = recorded[token.token_id]
            names |= {record.owner.removeprefix("User:"), record.requester.removeprefix("User:")}
        if names != {token.user}:
            what = f"a token that {token.user} created at {token.node} belongs to {', '.join(sorted(names))}"
            yield Violation(FORWARDED, what, token.seconds)
    for login in history.token_logins:
        if not login.is_accepted and login.token_id in recorded and recorded[login.token_id][0] <= login.floor:
            yield Violation(ACCEPTED, f"a login of {login.user} with a token at {login.node} is rejected", login.ended)


def _check_usages(usages: Sequence[Usage], states: SecurityStates) -> Iterator[Violation]:
    earlier: dict[tuple[str, int, str], list[Usage]] = {}
    for usage in sorted(usages, key=lambda one: one.ended):
        key, who = usage.quota_key, f"{usage.node} throttles {usage.user}"
        if usage.throttle_ms:
            found = states.between(usage.floor, usage.ended)
            if key is None or all(one.quota_of(key, usage.user) is None for one in found):
                yield Violation(QUOTAS, f"{who} for {usage.throttle_ms} ms without a quota", usage.ended)
        if key != _PRODUCER_BYTE_RATE:
            continue
        of_user = earlier.setdefault((usage.node, usage.run, usage.user), [])
        of_user.append(usage)
        if usage.throttle_ms:
            continue
        counted = [
            one
            for one in of_user
            if one is usage or (one.began >= usage.ended - _KEPT_SECONDS and one.ended <= usage.began)
        ]
        floor = min(one.floor for one in counted)
        limits = [one.quota_of(key, usage.user) for one in states.between(floor, usage.ended)]
        used = sum(one.size_bytes for one in counted)
        if None not in limits and used > max(one or 0.0 for one in limits) * _COVERED_SECONDS_MAX:
            what = f"{usage.node} does not throttle {usage.user} after {used} bytes with a quota of {limits} per second"
            yield Violation(LIMITED, what, usage.ended)
