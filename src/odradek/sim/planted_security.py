"""Bugs of authentication, authorization and quotas: what is stale, lost, cached or not checked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from odradek.base.ports import Client
from odradek.base.principal import ANONYMOUS, USER, Principal
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage, QuotaEntityKey
from odradek.core.quotas.sensors import Sensors
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_index import AclIndex
from odradek.core.security.authorizer import ANY_PRINCIPAL, Authorizer, ClientAccess, Decision, Reason
from odradek.core.security.resources import WILDCARD, Operation, PatternType, Permission
from odradek.core.security.scram_credentials import ScramMechanism
from odradek.node.controller_channel import ControllerChannel
from odradek.node.controller_node import ControllerNode
from odradek.node.sasl import NodeSasl
from odradek.quorum import loader
from odradek.quorum.apis import envelope
from odradek.server import authentication
from odradek.server.authentication import Authentication, Expire, Pass, State
from odradek.server.connection import ClientConnection
from odradek.sim.planted_bug import always, plant
from odradek.sim.scenarios import SECURITY
from odradek.wire.apis import ApiKey
from odradek.wire.headers import read_request_header

# ---- authorization


def _start_with_former_results(sound: Any) -> Any:
    """The results of a client's last connection outlive it, and changes of ACLs meanwhile."""
    former: dict[tuple[Authorizer, Principal, str], dict[Any, bool]] = {}

    def access_of(self: Authorizer, principal: Principal, host: str) -> ClientAccess:
        is_new = (principal, host) not in self._clients
        access: ClientAccess = sound(self, principal, host)
        if is_new:
            key = (self, principal, host)
            known, former[key] = former.get(key, {}), {}
            access._results = _CopyingDict(known, former[key])  # type: ignore[misc]
        return access

    return access_of


class _CopyingDict(dict[Any, bool]):
    def __init__(self, content: Mapping[Any, bool], copy: dict[Any, bool]) -> None:
        super().__init__(content)
        self._copy: Final = copy

    def __setitem__(self, key: Any, value: bool) -> None:
        super().__setitem__(key, value)
        self._copy[key] = value


def _allowing_entry(
    index: AclIndex, principal: str, host: str, operation: Operation, resource_type: int, name: str
) -> AccessControlEntry | None:
    for principals in index.patterns_of(resource_type, name):
        for named in (principal, ANY_PRINCIPAL):
            for entry in principals.get(named, ()):
                if (
                    entry.permission_type == Permission.ALLOW
                    and entry.host in (WILDCARD, host)
                    and entry.operation in (operation, Operation.ALL)
                ):
                    return entry
    return None


def _let_allow_win(*pattern_types: PatternType) -> Any:
    """Against DENY entries with such a pattern."""

    def breaks(sound: Any) -> Any:
        def decide(self: Authorizer, principal: str, host: str, operation: Operation, *resource: Any) -> Decision:
            decision: Decision = sound(self, principal, host, operation, *resource)
            denying = None if decision.allowed else decision.entry
            if denying is not None and denying.pattern_type in pattern_types:
                allowing = _allowing_entry(self._index, principal, host, operation, *resource)
                if allowing is not None:
                    return Decision(True, Reason.ENTRY, allowing)
            return decision

        return decide

    return breaks


def _forget_removed_entries(sound: Any) -> Any:
    def difference(old: ClusterImage, new: ClusterImage) -> ImageDelta:
        delta: ImageDelta = sound(old, new)
        kept = tuple(one for one in delta.access_control_changed if one in new.access_control_entries)
        return replace(delta, access_control_changed=kept)

    return difference


def _keep_prefixed_entries(sound: Any) -> Any:
    def update(
        self: AclIndex,
        before: Mapping[UUID, AccessControlEntry],
        after: Mapping[UUID, AccessControlEntry],
        changed: Iterable[UUID],
    ) -> None:
        prefixed = {
            one: entry
            for one, entry in before.items()
            if entry.pattern_type == PatternType.PREFIXED and one not in after
        }
        sound(self, before, after, [one for one in changed if one not in prefixed])

    return update


def _update_only_as_leader(sound: Any) -> Any:
    async def update_acls(self: ControllerNode, image: ClusterImage, delta: ImageDelta) -> None:
        if self._quorum.driver.is_leader and delta.access_control_changed and self.authorizer is not None:
            self.authorizer.load(image.access_control_entries)

    return update_acls


# ---- forwarding


def _forward_as(principal: Principal) -> Any:
    def breaks(sound: Any) -> Any:
        async def forward(self: ControllerChannel, client: Client, *request: Any) -> Any:
            return await sound(self, client if client is self._own else client._replace(principal=principal), *request)

        return forward

    return breaks


# ---- authentication


def _find_first_credential(sound: Any) -> Any:
    first: dict[tuple[NodeSasl, ScramMechanism, str], Any] = {}

    def find_user(self: NodeSasl, mechanism: ScramMechanism, name: str) -> Any:
        found = sound(self, mechanism, name)
        # A deleted user is not found.
        return None if found is None else first.setdefault((self, mechanism, name), found)

    return find_user


def _find_deleted_users(sound: Any) -> Any:
    last: dict[tuple[NodeSasl, ScramMechanism, str], Any] = {}

    def find_user(self: NodeSasl, mechanism: ScramMechanism, name: str) -> Any:
        found = sound(self, mechanism, name)
        if found is None:
            return last.get((self, mechanism, name))
        last[self, mechanism, name] = found
        return found

    return find_user


def _pass_first_requests(sound: Any) -> Any:
    def on_first_requests(self: Authentication, frame: bytearray) -> Any:
        api_key = read_request_header(frame).api_key
        return sound(self, frame) if api_key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE) else Pass()

    return on_first_requests


def _never_expire(sound: Any) -> Any:
    def receive(self: Authentication, frame: bytearray) -> Any:
        decision = sound(self, frame)
        return Pass() if isinstance(decision, Expire) else decision

    return receive


def _ignore_end_of_token(sound: Any) -> Any:
    def start_session(self: Authentication, exchange: Any) -> int:
        exchange.expires_at_ms = None
        lifetime_ms: int = sound(self, exchange)
        return lifetime_ms

    return start_session


def _forget_principal_again(sound: Any) -> Any:
    def set_principal(self: ClientConnection, principal: Principal) -> None:
        is_again = self.principal is not ANONYMOUS
        sound(self, ANONYMOUS if is_again else principal)

    return set_principal


def _serve_after_failure(sound: Any) -> Any:
    def reject(self: Authentication, *reason: Any, **how: Any) -> Any:
        rejection = sound(self, *reason, **how)
        if self.is_reauthentication and rejection.response is not None:
            self.state = State.AUTHENTICATED
            return authentication.Respond(rejection.response)
        return rejection

    return reject


# ---- quotas


def _keep_removed_limits(sound: Any) -> Any:
    known: dict[Sensors[Any], dict[QuotaEntityKey, float]] = {}

    def change(self: Sensors[Any], limits: Mapping[QuotaEntityKey, float]) -> None:
        of_this = known.setdefault(self, {})
        of_this.update(limits)
        sound(self, of_this)

    return change


def _keep_sensors_of_connections(sound: Any) -> Any:
    def change(self: Sensors[Any], limits: Mapping[QuotaEntityKey, float]) -> None:
        generation = self.generation
        sound(self, limits)
        self.generation = generation

    return change


SECURITY_BUGS: Final = (
    plant(
        "acl-results-outlive-connection",
        "a client that reconnects gets the results of checks of its former connection",
        Authorizer,
        "access_of",
        _start_with_former_results,
        scenario=SECURITY,
    ),
    plant(
        "acl-results-kept-after-change",
        "cached results of checks are not cleared when ACLs change",
        Authorizer,
        "_forget_results",
        always(None),
        scenario=SECURITY,
    ),
    plant(
        "prefixed-deny-ignored",
        "a DENY entry with a prefix does not deny what another entry allows",
        Authorizer,
        "decide",
        _let_allow_win(PatternType.PREFIXED),
        scenario=SECURITY,
    ),
    plant(
        "allow-before-deny",
        "an ALLOW entry wins against a DENY entry",
        Authorizer,
        "decide",
        _let_allow_win(PatternType.LITERAL, PatternType.PREFIXED),
        scenario=SECURITY,
    ),
    plant(
        "prefixed-acls-never-removed",
        "the index keeps removed entries that have a prefix",
        AclIndex,
        "update",
        _keep_prefixed_entries,
        scenario=SECURITY,
    ),
    plant(
        "removed-acls-kept-at-snapshot",
        "entries that a loaded snapshot no longer has stay in the index",
        loader,
        "difference",
        _forget_removed_entries,
        scenario=SECURITY,
    ),
    plant(
        "acls-of-followers-stale",
        "a controller updates the ACLs that it authorizes with only while it leads",
        ControllerNode,
        "_update_acls",
        _update_only_as_leader,
        scenario=SECURITY,
    ),
    plant(
        "forwarded-as-anonymous",
        "the principal of a client is lost when its request is forwarded",
        ControllerChannel,
        "forward",
        _forward_as(ANONYMOUS),
        scenario=SECURITY,
    ),
    plant(
        "forwarded-as-broker",
        "a controller takes the broker's principal for that of a forwarded request",
        envelope,
        "_principal",
        always(Principal(USER, "node1")),
        scenario=SECURITY,
    ),
    plant(
        "forwarded-without-host",
        "the client's address is lost when its request is forwarded",
        envelope,
        "_client_host",
        always("0.0.0.0"),
        scenario=SECURITY,
    ),
    plant(
        "old-password-cached",
        "a broker keeps the first credential that it finds for a user",
        NodeSasl,
        "_find_user",
        _find_first_credential,
        scenario=SECURITY,
    ),
    plant(
        "deleted-user-logs-in",
        "a broker keeps the credentials of deleted users",
        NodeSasl,
        "_find_user",
        _find_deleted_users,
        scenario=SECURITY,
    ),
    plant(
        "served-before-login",
        "requests other than ApiVersions and SaslHandshake are served before authentication",
        Authentication,
        "_on_first_requests",
        _pass_first_requests,
        scenario=SECURITY,
    ),
    plant(
        "other-user-reauthenticates",
        "a client may authenticate again as another user",
        authentication,
        "is_same",
        always(True),
        scenario=SECURITY,
    ),
    plant(
        "served-after-failed-reauthentication",
        "a connection whose client fails to authenticate again stays open",
        Authentication,
        "_reject",
        _serve_after_failure,
        scenario=SECURITY,
    ),
    plant(
        "principal-lost-at-reauthentication",
        "a client that authenticates again becomes ANONYMOUS",
        ClientConnection,
        "set_principal",
        _forget_principal_again,
        scenario=SECURITY,
    ),
    plant(
        "session-never-expires",
        "requests are served after the end of the session",
        Authentication,
        "receive",
        _never_expire,
        scenario=SECURITY,
    ),
    plant(
        "session-outlives-token",
        "a session continues after the end of the delegation token that it was opened with",
        Authentication,
        "_start_session",
        _ignore_end_of_token,
        scenario=SECURITY,
    ),
    plant(
        "removed-quota-applies",
        "clients stay limited after their quota was removed",
        Sensors,
        "change",
        _keep_removed_limits,
        scenario=SECURITY,
    ),
    plant(
        "quota-change-ignored-by-connections",
        "open connections keep the limits that they had when they were opened",
        Sensors,
        "change",
        _keep_sensors_of_connections,
        scenario=SECURITY,
    ),
)
