"""SCRAM users, and delegation tokens on a connection without authentication."""

from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario

SHA_256, SHA_512 = 1, 2
ALTER, DESCRIBE = Api.ALTER_USER_SCRAM_CREDENTIALS, Api.DESCRIBE_USER_SCRAM_CREDENTIALS


def _upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096, salted: bytes = b"salted") -> Any:
    return {"name": user, "mechanism": mechanism, "iterations": iterations, "salt": b"salt", "salted_password": salted}


def _deletion(user: str, mechanism: int = SHA_256) -> Any:
    return {"name": user, "mechanism": mechanism}


def _alter(talk: Conversation, label: str, *, deletions: Any = (), upsertions: Any = ()) -> None:
    talk.request(label, ALTER, {"deletions": deletions, "upsertions": upsertions})


def _describe(talk: Conversation, label: str, users: list[str] | None) -> None:
    talk.request(label, DESCRIBE, {"users": None if users is None else [{"name": user} for user in users]})


def _until_users_are(talk: Conversation, *users: tuple[str, int]) -> None:
    def found() -> set[tuple[str, int]]:
        results = talk.request_quietly(DESCRIBE, {"users": None}).results
        return {(one.user, info.mechanism) for one in results for info in one.credential_infos}

    talk.until(lambda: found() == set(users))


@scenario
def scram_users(talk: Conversation) -> None:
    _describe(talk, "no users yet", None)
    _describe(talk, "unknown and repeated users", ["alice", "bob", "bob", ""])
    _alter(talk, "nothing")
    _alter(talk, "new users", upsertions=[_upsertion("alice"), _upsertion("bob", SHA_512, 16384)])
    _until_users_are(talk, ("alice", SHA_256), ("bob", SHA_512))
    _alter(talk, "another mechanism", upsertions=[_upsertion("alice", SHA_512, 8192)])
    _until_users_are(talk, ("alice", SHA_256), ("alice", SHA_512), ("bob", SHA_512))
    for label, users in (("all", None), ("an empty list", []), ("some", ["bob", "carol"]), ("twice", ["bob", "bob"])):
        _describe(talk, label, users)
    _alter(
        talk,
        "invalid upsertions",
        upsertions=[
            _upsertion(""),
            _upsertion("few", iterations=4095),
            _upsertion("many", iterations=16385),
            _upsertion("negative", iterations=-1),
            _upsertion("unknown mechanism", 0),
            _upsertion("future mechanism", 3),
            _upsertion("no salted password", salted=b""),
        ],
    )
    _alter(
        talk,
        "invalid deletions",
        deletions=[_deletion(""), _deletion("nobody"), _deletion("bob", SHA_256), _deletion("alice", 7)],
    )
    _alter(
        talk,
        "twice",
        deletions=[_deletion("alice"), _deletion("bob", SHA_512), _deletion("bob", SHA_512)],
        upsertions=[_upsertion("alice", SHA_512), _upsertion("carol"), _upsertion("carol"), _upsertion("carol")],
    )
    _alter(
        talk,
        "an error stays the first one",
        deletions=[_deletion("nobody")],
        upsertions=[_upsertion("nobody"), _upsertion("few", iterations=1), _upsertion("few")],
    )
    _describe(talk, "unchanged", None)
    _alter(talk, "some valid", deletions=[_deletion("alice"), _deletion("nobody")], upsertions=[_upsertion("carol")])
    _until_users_are(talk, ("alice", SHA_512), ("bob", SHA_512), ("carol", SHA_256))
    _alter(
        talk,
        "the end",
        deletions=[_deletion("alice", SHA_512), _deletion("bob", SHA_512), _deletion("carol", SHA_256)],
    )
    _until_users_are(talk)


@scenario
def delegation_tokens_without_authentication(talk: Conversation) -> None:
    renewers = [{"principal_type": "User", "principal_name": "bob"}]
    owner = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    talk.request_each_version(
        "create", Api.CREATE_DELEGATION_TOKEN, {"renewers": renewers, "max_lifetime": -1, **owner}
    )
    talk.request_each_version("renew", Api.RENEW_DELEGATION_TOKEN, {"hmac": b"hmac", "renew_period": -1})
    talk.request_each_version("expire", Api.EXPIRE_DELEGATION_TOKEN, {"hmac": b"hmac", "expiry_time_period": -1})
    talk.request_each_version("describe", Api.DESCRIBE_DELEGATION_TOKEN, {"owners": None})
