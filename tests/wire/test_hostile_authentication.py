"""Hostile clients before authentication: 2,400 mutated handshakes, SASL exchanges and frames, in `make proof` 100,000.

No client is served without a proof of its identity. Meanwhile a client with a login is never delayed by 100 ms, and
memory does not grow. ODRADEK_FUZZ_SEED and ODRADEK_FUZZ_LOGINS repeat or lengthen the run.
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.raw_wire import ConnectionClosed, RawConnection
from tests.secured_node import log_in
from tests.wire import sasl_fuzzing, tls_fuzzing
from tests.wire.hostile_node import AUTHORIZER, HostileNode, bystander, hostile_node
from tests.wire.sasl_fuzzing import HostileSasl, reset
from tests.wire.sasl_model import Credentials
from tests.wire.tls_fuzzing import HostileTls

LOGINS = int(os.environ.get("ODRADEK_FUZZ_LOGINS", "2400"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "1883"))
WORKERS = 4
WARM_UP = 200
ANY_RESOURCE = {"resource_type_filter": 1, "pattern_type_filter": 1}
MEMORY_GROWTH_MAX = 48 << 20
# Of the connections: TLS handshakes, SASL exchanges, and requests of all APIs.
SHARES = {"tls": 35, "sasl": 50, "requests": 15}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileNode]:
    with hostile_node(tmp_path_factory.mktemp("hostile")) as node:
        yield node


@pytest.mark.timeout(1800)
def test_mutated_logins_never_authenticate(node: HostileNode) -> None:
    credentials = node.credentials()
    # Loads every schema and thread before memory is measured.
    play(node, credentials, SEED, WARM_UP)
    before = node.resident_bytes
    with bystander(node), ThreadPoolExecutor(WORKERS) as workers:
        runs = [
            workers.submit(play, node, credentials, SEED + 1 + worker, LOGINS // WORKERS) for worker in range(WORKERS)
        ]
        counted = sum((run.result() for run in runs), Counter[str]())
    grown = node.resident_bytes - before
    print(f"memory grew by {grown >> 10} KiB:", dict(counted))
    assert grown < MEMORY_GROWTH_MAX, f"memory grew by {grown >> 20} MiB"
    assert node.is_running, node.output_file.read_text()[-3000:]
    node.assert_nothing_leaked()


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileNode]:
    """A node whose clients may authenticate again, and where only alice is an administrator."""
    properties = {**AUTHORIZER, "connections.max.reauth.ms": "3600000"}
    with hostile_node(tmp_path_factory.mktemp("sessions"), properties) as node:
        yield node


@pytest.mark.timeout(600)
def test_mutated_reauthentication_never_changes_the_principal(sessions: HostileNode) -> None:
    """Bob also knows the password of alice. Instead of logging in as alice, the connection stays bob's or ends."""
    hostile = HostileSasl(SEED, sessions.credentials(), ("PLAIN", "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"))
    served = ended = 0
    for _ in range(LOGINS // 4):
        connection = log_in(RawConnection(sessions.sasl_port), "bob", "b")
        try:
            if not hostile.play(connection).is_served:
                ended += 1
                continue
            served += 1
            response = connection.request(Api.DESCRIBE_ACLS, 3, {"operation": 1, "permission_type": 1, **ANY_RESOURCE})
            assert response.error_code is ErrorCode.cluster_authorization_failed
        finally:
            reset(connection.socket)
    assert served
    assert ended
    with sessions.connect() as alice:
        response = alice.request(Api.DESCRIBE_ACLS, 3, {"operation": 1, "permission_type": 1, **ANY_RESOURCE})
        assert response.error_code is ErrorCode.none
    sessions.assert_nothing_leaked()


def play(node: HostileNode, credentials: Credentials, seed: int, logins: int) -> Counter[str]:
    sasl = HostileSasl(seed, credentials)
    tls = HostileTls(seed, node.authority.issue("alice", hosts=()))
    counted: Counter[str] = Counter()
    for kind, share in SHARES.items():
        for _ in range(logins * share // 100):
            connection = RawConnection(node.mutual_port if kind == "tls" else node.sasl_port)
            try:
                if kind == "tls":
                    handshake = tls.play(connection)
                    tls_fuzzing.check(handshake)
                    counted[f"tls {handshake.kind} served {handshake.is_served} closed {handshake.is_closed}"] += 1
                else:
                    outcome = sasl.play(connection) if kind == "sasl" else sasl.requests(connection)
                    sasl_fuzzing.check(outcome, credentials)
                    counted[f"{outcome.kind} served {outcome.is_served} closed {outcome.is_closed}"] += 1
            except ConnectionClosed:
                counted[f"{kind} closed"] += 1
            finally:
                reset(connection.socket)
    return counted
