"""Authentication, authorization and quotas: what nodes decided must follow from metadata that they had applied.

A node decides with the metadata that it had applied when the request began, or with anything committed since. If all
of these states deny a request, it must be denied; if all allow it, it must be allowed.
"""

from collections.abc import Iterator
from typing import Final

from odradek.core.metadata.records import DelegationTokenRecord
from odradek.sim.checkers.access_model import Rules, SecurityStates
from odradek.sim.checkers.violation import Violation
from odradek.sim.quorum_history import QuorumHistory
from odradek.sim.security_history import Decision, LoginAttempt, SecurityHistory

DENIED: Final = "a request that applied ACLs deny is denied"
ALLOWED: Final = "a request that applied ACLs allow is allowed"
REJECTED: Final = "a login needs the current password"
ACCEPTED: Final = "a login with the current password succeeds"
SAME_USER: Final = "re-authentication keeps the principal"
AUTHENTICATED: Final = "only authenticated clients are served"
FORWARDED: Final = "a forwarded request keeps the principal of its client"
QUOTAS: Final = "only clients with a quota are throttled"


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
    for throttle in history.throttles:
        key = throttle.quota_key
        if not any(
            key is not None and one.has_quota(key, throttle.user, throttle.client_id)
            for one in states.between(throttle.floor, throttle.ended)
        ):
            what = f"{throttle.node} throttles {throttle.user} for {throttle.milliseconds} ms without a quota"
            yield Violation(QUOTAS, what, throttle.ended)


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
        record.token_id: record
        for batch in quorum.committed
        for record in batch.security
        if isinstance(record, DelegationTokenRecord)
    }
    for token in history.tokens:
        names = {token.owner, token.requester}
        if (record := recorded.get(token.token_id)) is not None:
            names |= {record.owner.removeprefix("User:"), record.requester.removeprefix("User:")}
        if names != {token.user}:
            what = f"a token that {token.user} created at {token.node} belongs to {', '.join(sorted(names))}"
            yield Violation(FORWARDED, what, token.seconds)
