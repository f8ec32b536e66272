"""A client that logs in as a user of a secured cluster, and records what it is allowed to do.

It keeps connections for a while, authenticates again in the middle of pipelined requests, and sometimes uses an old
password, another user, or a session that has expired.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.sim.clients.login import LoginRejected, request_handshake
from odradek.sim.clients.security_requests import (
    SecuredRequest,
    all_requests,
    create_topic_request,
    metadata_request,
    random_request,
    token_request,
)
from odradek.sim.secured_nodes import SCRAM, token_login, user_login
from odradek.sim.security_history import (
    Check,
    Decision,
    Intrusion,
    LoginAttempt,
    SecurityHistory,
    TokenCreated,
    TokenLogin,
    Usage,
)
from odradek.wire.schemas import Message

_PIPELINED_MAX: Final = 4
_WRONG_PASSWORD_PROBABILITY: Final = 0.2
_OTHER_USER_PROBABILITY: Final = 0.25
_REAUTHENTICATION_PROBABILITY: Final = 0.4
_REAUTHENTICATION_SECONDS_MIN: Final = 1.1
"""A broker accepts none within a second of the former one."""
_TOKENS_MAX: Final = 4
_TOKEN_MS: Final = (2000, 4000, 3_600_000)
_TOKEN_LOGIN_PROBABILITY: Final = 0.4
_TOKEN_MARGIN_SECONDS: Final = 2.5
"""A token ends this much earlier at most at the nodes: its creation takes no longer, as the request times out."""


def _ignore() -> None:
    pass


class _Sent(NamedTuple):
    request: SecuredRequest
    response: asyncio.Future[Message]
    began: float
    floor: int
    session_ends: float | None


class _Token(NamedTuple):
    token_id: str
    hmac: bytes
    ends: float
    """Not before its end at the nodes."""


class UserClient:
    def __init__(
        self, client: ClusterClient, history: SecurityHistory, user: str, host: str, nodes: Sequence[tuple[str, int]]
    ) -> None:
        """`host` is its address; `nodes` are the names and ports of brokers."""
        self._client: Final = client
        self._history: Final = history
        self._user: Final = user
        self._host: Final = host
        self._nodes: Final = tuple(nodes)
        self._tokens: Final[list[_Token]] = []
        self.is_finishing = False

    async def run(self) -> None:
        while not self.is_finishing:
            node, port = self._client.random.choice(self._nodes)
            try:
                await self._use(node, port, rounds=self._client.random.choice((3, 20, 60)))
            except RequestFailed as failure:
                self._client.note(f"reconnects: {failure}")
            await self._client.back_off()

    async def check_everywhere(self) -> None:
        """Sends each kind of request to each broker once, with the current password. Raises RequestFailed."""
        for node, port in self._nodes:
            session = await self._open_session(node, port)
            await session.log_in(self._history.passwords[self._user][-1])
            for request in all_requests(self._client.random, self._client.clock.wall_ms()):
                sent = session.send(request)
                session.record(sent, await self._client.await_response(session.connection, sent.response))
            session.connection.abort()

    async def _use(self, node: str, port: int, rounds: int) -> None:
        random = self._client.random
        session = await self._open_session(node, port)
        if self._tokens and random.random() < _TOKEN_LOGIN_PROBABILITY:
            await session.log_in_with_token(random.choice(self._tokens))
        else:
            await session.log_in(self._random_password(self._user))
        outlives_session = random.random() < 0.3
        while rounds > 0 and not self.is_finishing and session.connection.is_open:
            rounds -= 1
            await asyncio.sleep(random.expovariate(10))
            sent = [session.send(self._random_request()) for _ in range(random.randrange(1, _PIPELINED_MAX + 1))]
            must_renew = session.must_renew and not outlives_session
            if session.can_renew and (must_renew or random.random() < _REAUTHENTICATION_PROBABILITY):
                # The broker has not responded to the requests before.
                await session.log_in_again(*self._random_login())
            await self._receive(session, sent)
            if len(self._tokens) < _TOKENS_MAX and random.random() < 0.05:
                await self._create_token(session)
        session.connection.abort()

    async def _receive(self, session: "_Session", sent: Sequence[_Sent]) -> None:
        for one in sent:
            session.record(one, await self._client.await_response(session.connection, one.response))

    async def _open_session(self, node: str, port: int) -> "_Session":
        connection = await self._client.open_connection(node, port)
        return _Session(self._client, self._history, connection, self._user, self._host, node)

    async def _create_token(self, session: "_Session") -> None:
        lifetime_ms = self._client.random.choice(_TOKEN_MS)
        response = await self._client.await_response(
            session.connection, session.connection.send_request(*token_request(lifetime_ms))
        )
        if response.error_code is ErrorCode.none:
            ends = self._client.now + lifetime_ms / 1000
            self._tokens.append(_Token(response.token_id, bytes(response.hmac), ends))
            self._history.tokens.append(
                TokenCreated(
                    user=self._user,
                    node=session.node,
                    owner=response.principal_name,
                    requester=response.token_requester_principal_name,
                    token_id=response.token_id,
                    seconds=self._client.now,
                )
            )

    def _random_request(self) -> SecuredRequest:
        return random_request(self._client.random, self._client.clock.wall_ms())

    def _random_password(self, user: str) -> str:
        passwords = self._history.passwords[user]
        is_old = self._client.random.random() < _WRONG_PASSWORD_PROBABILITY
        return self._client.random.choice(passwords) if is_old else passwords[-1]

    def _random_login(self) -> tuple[str, str]:
        """Of this user, or of another one whose password it knows."""
        random, user = self._client.random, self._user
        if random.random() < _OTHER_USER_PROBABILITY:
            user = random.choice(list(self._history.passwords))
        return user, self._random_password(user)


class _Session:
    """One connection of the user."""

    def __init__(
        self, client: ClusterClient, history: SecurityHistory, connection: Connection, user: str, host: str, node: str
    ) -> None:
        self._client: Final = client
        self._history: Final = history
        self.connection: Final = connection
        self._user: Final = user
        self._host: Final = host
        self.node: Final = node
        self._renewed = client.now
        self._seconds = 0.0
        self._token: _Token | None = None

    @property
    def _ends(self) -> float | None:
        ends = [] if self._token is None else [self._token.ends]
        if self._seconds:
            ends.append(self._renewed + self._seconds)
        return min(ends, default=None)

    @property
    def can_renew(self) -> bool:
        return (
            self._token is None
            and self._seconds > 0
            and self._client.now - self._renewed > _REAUTHENTICATION_SECONDS_MIN
        )

    @property
    def must_renew(self) -> bool:
        return self._seconds > 0 and self._client.now - self._renewed > 0.7 * self._seconds

    async def log_in(self, password: str) -> None:
        """Raises RequestFailed."""
        await self._log_in(self._user, password, None)

    async def log_in_with_token(self, token: _Token) -> None:
        """Raises RequestFailed."""
        client = self._client
        self._token = token
        floor = self._history.floor_of(self.node)

        def record(*, is_accepted: bool) -> None:
            if client.now < token.ends - _TOKEN_MARGIN_SECONDS:
                self._history.token_logins.append(
                    TokenLogin(
                        user=self._user,
                        node=self.node,
                        token_id=token.token_id,
                        is_accepted=is_accepted,
                        ended=client.now,
                        floor=floor,
                    )
                )

        try:
            self._seconds = await client.log_in(self.connection, token_login(token.token_id, token.hmac))
        except LoginRejected:
            record(is_accepted=False)
            raise
        record(is_accepted=True)
        self._renewed = client.now

    async def log_in_again(self, user: str, password: str) -> None:
        """Raises RequestFailed. Sometimes sends a request right after its last message: it counts if the login does."""
        sent: list[_Sent] = []

        def send_early() -> None:
            if self._client.random.random() < 0.5:
                request = random_request(self._client.random, self._client.clock.wall_ms())
                sent.append(self.send(request)._replace(session_ends=None))

        try:
            await self._log_in(user, password, self._user, send_early)
        except LoginRejected:
            sent.append(self.send(random_request(self._client.random, self._client.clock.wall_ms())))
            await self._expect_no_response(sent)
            raise
        for one in sent:
            self.record(one, await self._client.await_response(self.connection, one.response))

    async def _log_in(
        self, user: str, password: str, former: str | None, on_last_message: Callable[[], None] = _ignore
    ) -> None:
        client = self._client
        began, floor = client.now, self._history.floor_of(self.node)

        def record(*, is_accepted: bool) -> None:
            self._history.logins.append(
                LoginAttempt(
                    user=user,
                    password=password,
                    node=self.node,
                    is_accepted=is_accepted,
                    began=began,
                    ended=client.now,
                    floor=floor,
                    former_user=former,
                )
            )

        try:
            seconds = await client.log_in(self.connection, user_login(user, password), on_last_message)
        except LoginRejected:
            record(is_accepted=False)
            raise
        record(is_accepted=True)
        # Later than at the broker, where the session ends earlier.
        self._renewed, self._seconds = client.now, seconds

    async def _expect_no_response(self, sent: Sequence[_Sent]) -> None:
        """The broker closes the connection."""
        for one in sent:
            try:
                await self._client.await_response(self.connection, one.response)
            except RequestFailed:
                continue
            self._note_intrusion(f"responds to {one.request.name} of {self._user} after a failed login")
        self.connection.abort()

    def send(self, request: SecuredRequest) -> _Sent:
        floor = self._history.controller_floor() if request.is_forwarded else self._history.floor_of(self.node)
        response = self.connection.send_request(request.chosen, request.message)
        return _Sent(request, response, self._client.now, floor, self._ends)

    def record(self, sent: _Sent, response: Message) -> None:
        client, request = self._client, sent.request
        if sent.session_ends is not None and sent.began > sent.session_ends:
            self._note_intrusion(f"responds to {request.name} of {self._user} after the end of its session")
        throttle_ms = round(response.throttle_time.total_seconds() * 1000)
        if throttle_ms or request.quota_key is not None:
            self._history.usages.append(
                Usage(
                    user=self._user,
                    client_id=client.name,
                    node=self.node,
                    run=self._history.run_of(self.node),
                    quota_key=request.quota_key,
                    size_bytes=request.size_bytes,
                    throttle_ms=throttle_ms,
                    began=sent.began,
                    ended=client.now,
                    floor=sent.floor,
                )
            )
        for any_of, is_allowed in request.read(response):
            if is_allowed is not None:
                self._record_decision(sent, any_of, is_allowed)

    def _record_decision(self, sent: _Sent, any_of: tuple[Check, ...], is_allowed: bool) -> None:
        self._history.decisions.append(
            Decision(
                user=self._user,
                host=self._host,
                node=self.node,
                api=sent.request.name,
                any_of=any_of,
                is_allowed=is_allowed,
                began=sent.began,
                ended=self._client.now,
                floor=sent.floor,
            )
        )

    def _note_intrusion(self, what: str) -> None:
        self._history.intrusions.append(Intrusion(node=self.node, what=what, seconds=self._client.now))


class Stranger:
    """A client that never logs in, and sends requests all the same."""

    def __init__(self, client: ClusterClient, history: SecurityHistory, nodes: Sequence[tuple[str, int]]) -> None:
        self._client: Final = client
        self._history: Final = history
        self._nodes: Final = tuple(nodes)

    async def run(self, interval_seconds: float) -> None:
        random = self._client.random
        while True:
            await asyncio.sleep(random.expovariate(1 / interval_seconds))
            node, port = random.choice(self._nodes)
            try:
                await self._try(node, port)
            except RequestFailed as failure:
                self._client.note(f"is not served: {failure}")

    async def _try(self, node: str, port: int) -> None:
        client = self._client
        connection = await client.open_connection(node, port)
        if client.random.random() < 0.5:
            await client.await_response(connection, request_handshake(connection, SCRAM))
        chosen, message = client.random.choice((metadata_request(None), create_topic_request(client.random)))
        await client.await_response(connection, connection.send_request(chosen, message))
        what = f"responds to {chosen.api_name} of a client that is not logged in"
        self._history.intrusions.append(Intrusion(node=node, what=what, seconds=client.now))
        connection.abort()
