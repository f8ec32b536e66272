"""Transactions: initialization, fencing, commit and abort, valid and invalid, in old and new versions."""

from typing import Any

from tests.apis import Api, versions
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.kafka.side_by_side.scenarios.groups import until_coordinated as until_groups
from tests.kafka.side_by_side.transactor import Transactor, read, until_coordinated


@scenario
def transactions_of_old_clients(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("old", partitions=2)
    one = Transactor(talk, "one", is_old=True)
    one.init()
    one.end("commits nothing", commits=True)
    one.end("aborts nothing", commits=False)
    one.send("writes to what it has not added", "old")
    one.add("adds a partition", {"old": [0]})
    one.describe("is open")
    one.send("writes", "old")
    one.send("writes more", "old")
    one.send("writes elsewhere", "old", 1)
    one.add("adds the other, and the first again", {"old": [0, 1]})
    one.send("writes elsewhere now", "old", 1)
    read(talk, "what is not committed, committed only", "old")
    read(talk, "what is not committed, all", "old", committed=False)
    one.end("commits as another producer", commits=True, producer_id=one.producer_id + 100_000)
    one.end("commits in a later epoch", commits=True, producer_epoch=5)
    one.end("commits", commits=True)
    one.until("CompleteCommit")
    one.end("commits again", commits=True)
    one.end("aborts what is committed", commits=False)
    one.describe("has committed")
    one.add("adds a partition to its next", {"old": [0]})
    one.send("writes what is aborted", "old")
    one.end("aborts", commits=False)
    one.until("CompleteAbort")
    one.end("aborts again", commits=False)
    one.end("commits what is aborted", commits=True)
    one.send("writes after the end", "old")
    read(talk, "what was kept, committed only", "old")
    read(talk, "what was kept, all", "old", committed=False)
    read(talk, "the other partition", "old", partition=1)
    for version in versions(Api.END_TXN):
        if version < 5:
            one.end("comes in an old epoch", commits=True, version=version, producer_epoch=-1)


@scenario
def transactions_of_new_clients(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("new", partitions=2)
    one = Transactor(talk, "one")
    one.init()
    one.end("commits nothing", commits=True)
    one.send("begins in the middle", "new", sequence=3)
    one.send("writes", "new")
    one.describe("is open")
    one.send("writes more", "new")
    one.send("writes elsewhere", "new", 1)
    before = (one.producer_id, one.epoch)
    one.end("commits", commits=True)
    one.until("CompleteCommit")
    after = (one.producer_id, one.epoch)
    repeated = {"producer_id": before[0], "producer_epoch": before[1]}
    one.end("repeats its commit", commits=True, **repeated)
    one.end("aborts what it has committed", commits=False, **repeated)
    one.end("commits nothing", commits=True)
    one.end("commits in an epoch of the future", commits=True, producer_epoch=after[1] + 1)
    one.end("aborts nothing", commits=False)
    one.until("CompleteAbort")
    one.end("aborts nothing again", commits=False)
    one.until("CompleteAbort")
    one.send("writes what is aborted", "new")
    one.send("writes in an old epoch", "new", producer_epoch=before[1])
    before = (one.producer_id, one.epoch)
    one.end("aborts", commits=False)
    one.until("CompleteAbort")
    repeated = {"producer_id": before[0], "producer_epoch": before[1]}
    one.end("repeats its abort", commits=False, **repeated)
    one.end("commits what is aborted", commits=True, **repeated)
    one.send("writes late, in the epoch before", "new", producer_epoch=before[1], sequence=1)
    read(talk, "what was kept, committed only", "new")
    read(talk, "what was kept, all", "new", committed=False)
    read(talk, "the other partition", "new", partition=1)
    talk.request(
        "who wrote",
        Api.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "new", "partition_indexes": [0]}]},
    )


@scenario
def transactional_producers_begin(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("begun")
    for version in versions(Api.INIT_PRODUCER_ID):
        Transactor(talk, f"in version {version}").init("begins", version=version)
    one = Transactor(talk, "one")
    one.init("without a timeout", timeout_ms=0)
    one.init("with a negative timeout", timeout_ms=-1)
    one.init("with a long timeout", timeout_ms=900_001)
    one.init("with the longest timeout", timeout_ms=900_000)
    first = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
    one.init("has an epoch, and wants the next", **first)
    one.init("asks again", **first)
    second = {"producer_id": one.producer_id, "producer_epoch": one.epoch}
    one.init("wants the next", **second)
    one.init("comes with the first again", **first)
    one.init("comes with an epoch of the future", **{**second, "producer_epoch": 77})
    one.init("comes with another id", producer_id=one.producer_id + 100_000, producer_epoch=0)
    one.init("comes with another id, and an old version", version=3, producer_id=5, producer_epoch=0)
    one.init("begins anew")
    one.init("comes with what was before", **second)
    one.send("writes", "begun")
    two = Transactor(talk, "one")
    two.producer_id, two.epoch = one.producer_id, one.epoch
    two._ids = one._ids
    two.init_at_last("begins anew, and the open transaction is aborted")
    one.send("writes when it is fenced", "begun", sequence=1)
    one.end("commits when it is fenced", commits=True)
    one.add("adds a partition when it is fenced", {"begun": [0]}, version=1)
    one.add("adds a partition when it is fenced", {"begun": [0]}, version=2)
    two.send("writes", "begun")
    two.end("commits", commits=True)
    two.until("CompleteCommit")
    read(talk, "what was kept, committed only", "begun")
    Transactor(talk, "").init("without a name")
    forgotten = Transactor(talk, "forgotten")
    forgotten.init("comes with an id that nobody knows", producer_id=1_000_000, producer_epoch=3)


@scenario
def partitions_are_added(talk: Conversation) -> None:
    until_coordinated(talk)
    until_groups(talk)
    talk.create_topic("added", partitions=3)
    for version in versions(Api.ADD_PARTITIONS_TO_TXN):
        one = Transactor(talk, f"in version {version}")
        one.init()
        one.add("adds", {"added": [0, 2]}, version=version)
        one.add("adds the same", {"added": [2]}, version=version)
        one.add("adds what does not exist", {"added": [1, 7], "gone": [0]}, version=version)
        one.add("adds an internal one", {"__consumer_offsets": [0]}, version=version)
        one.add("adds in another epoch", {"added": [1]}, version=version, producer_epoch=9)
        one.add("adds as another", {"added": [1]}, version=version, producer_id=one.producer_id + 100_000)
        one.add("adds to nothing", {"added": [1]}, version=version, transactional_id="nobody")
        one.add("adds without a name", {"added": [1]}, version=version, transactional_id="")
        one.describe("has added")
        if version >= 4:
            one.add("verifies", {"added": [0, 1]}, version=version, verify_only=True)
            one.add("verifies in another epoch", {"added": [0]}, version=version, verify_only=True, producer_epoch=9)
            one.add("verifies nothing", {"added": [0]}, version=version, verify_only=True, transactional_id="nobody")
            one.add("verifies what does not exist", {"gone": [0]}, version=version, verify_only=True)
    none = Transactor(talk, "none")
    none.init()
    none.add("adds no partition", {}, version=3)
    none.describe("has no partition")
    offsets = Transactor(talk, "offsets")
    offsets.init()
    talk.request_each_version("offsets", Api.ADD_OFFSETS_TO_TXN, offsets.identity(group_id="a group"))
    talk.request_each_version(
        "offsets in another epoch", Api.ADD_OFFSETS_TO_TXN, offsets.identity(group_id="g") | {"producer_epoch": 8}
    )
    talk.request("offsets of no group", Api.ADD_OFFSETS_TO_TXN, offsets.identity(group_id=""))
    offsets.describe("has offsets")


@scenario
def transactional_batches_unasked(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("unasked")
    one = Transactor(talk, "one")
    one.init()
    for version in (9, 10, 11):
        one.send(f"writes what it has not added, in version {version}", "unasked", version=version)
    one.send("writes without its name", "unasked", transactional_id=None)
    one.send("writes under another name", "unasked", transactional_id="nobody")
    one.send("writes in an epoch of the future", "unasked", producer_epoch=4)
    one.send("writes with the id of another", "unasked", producer_id=one.producer_id + 100_000)
    one.send("writes outside of a transaction, with its name", "unasked", attributes=0)
    one.send("writes in version 12", "unasked", version=12)
    one.send("writes outside of its transaction", "unasked", attributes=0)
    one.describe("has written")
    read(talk, "all", "unasked", committed=False)


@scenario
def markers(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("marked", partitions=2)
    one = Transactor(talk, "one", is_old=True)
    one.init()
    one.add("adds", {"marked": [0]})
    one.send("writes", "marked")

    def write(label: str, *, version: int = 2, epoch: int = 0, coordinator_epoch: int = 0, **others: Any) -> None:
        marker = {
            "producer_id": one.producer_id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "topics": [{"name": "marked", "partition_indexes": [0]}],
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": 0,
            **others,
        }
        talk.request(label, Api.WRITE_TXN_MARKERS, {"markers": [marker]}, version=version)

    write("in the epoch of the data, where it has to be higher", transaction_version=2)
    write("in version 1", version=1, coordinator_epoch=4)
    write("of an older coordinator", coordinator_epoch=3)
    write("once more", coordinator_epoch=4)
    write("where epochs rise, once more", coordinator_epoch=4, transaction_version=2)
    write("in a later epoch", coordinator_epoch=4, epoch=2, transaction_version=2)
    write("in an earlier epoch", coordinator_epoch=4, epoch=1)
    topics = [{"name": "marked", "partition_indexes": [1, 9]}, {"name": "gone", "partition_indexes": [0]}]
    write("of partitions that do not exist", topics=topics, transaction_result=True)
    write("of no partition", topics=[])
    write("of an unknown transaction version", transaction_version=9, epoch=3, coordinator_epoch=4)
    read(talk, "what is committed", "marked")
    read(talk, "all", "marked", committed=False)


@scenario
def transactional_offsets(talk: Conversation) -> None:
    until_coordinated(talk)
    until_groups(talk)
    talk.create_topic("read", partitions=2)

    def commit(one: Transactor, label: str, offset: int, *, version: int = 5, **others: Any) -> None:
        topics = [
            {
                "name": "read",
                "partitions": [
                    {"partition_index": 0, "committed_offset": offset, "committed_metadata": "here"},
                    {"partition_index": 7, "committed_offset": 1, "committed_metadata": None},
                ],
            },
            {"name": "gone", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]},
        ]
        fields = one.identity(group_id="readers", topics=topics) | others
        talk.request(f"{one.name} {label}", Api.TXN_OFFSET_COMMIT, fields, version=version)

    def fetch(label: str, *, require_stable: bool = False) -> None:
        groups = [{"group_id": "readers", "topics": [{"name": "read", "partition_indexes": [0]}]}]
        fields = {"groups": groups, "require_stable": require_stable}
        talk.request(label, Api.OFFSET_FETCH, fields, version=8)

    one = Transactor(talk, "one")
    one.init()
    for version in range(5):
        commit(one, "commits offsets that are no part of it", 3, version=version)
    fetch("nothing committed")
    commit(one, "commits offsets", 4)
    one.describe("has offsets")
    fetch("what is not committed yet")
    fetch("what is not stable", require_stable=True)
    one.end("commits", commits=True)
    one.until("CompleteCommit")
    talk.until(lambda: _fetched(talk) == 4)
    fetch("what is committed", require_stable=True)
    commit(one, "commits offsets that will not count", 9)
    one.end("aborts", commits=False)
    one.until("CompleteAbort")
    fetch("what was committed before", require_stable=True)
    commit(one, "commits in an epoch that has passed", 11, producer_epoch=0)
    commit(one, "commits as another", 11, producer_id=one.producer_id + 100_000)
    commit(one, "commits under another name", 11, transactional_id="nobody")
    commit(one, "commits without a group", 11, group_id="")
    commit(one, "commits as a member that is not there", 11, member_id="m", generation_id=3)
    old = Transactor(talk, "old", is_old=True)
    old.init()
    talk.request("old adds its offsets", Api.ADD_OFFSETS_TO_TXN, old.identity(group_id="readers"))
    for version in range(5):
        commit(old, "commits offsets", 20 + version, version=version)
    old.end("commits", commits=True)
    old.until("CompleteCommit")
    talk.until(lambda: _fetched(talk) == 24)
    fetch("what old has committed", require_stable=True)


def _fetched(talk: Conversation) -> int:
    groups = [{"group_id": "readers", "topics": [{"name": "read", "partition_indexes": [0]}]}]
    response = talk.request_quietly(Api.OFFSET_FETCH, {"groups": groups, "require_stable": False}, version=8)
    return int(response.groups[0].topics[0].partitions[0].committed_offset)


@scenario
def transactions_seen(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("seen", partitions=2)
    idle, opened, done = (Transactor(talk, name) for name in ("idle", "open", "done"))
    for one in (idle, opened, done):
        one.init()
    opened.send("writes", "seen", 1)
    done.send("writes", "seen")
    done.end("commits", commits=True)
    done.until("CompleteCommit")
    names = ["open", "idle", "done", "gone", ""]
    talk.request("all", Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": names})
    talk.request("none", Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": []})
    everything: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
    talk.request_each_version("everything", Api.LIST_TRANSACTIONS, everything)
    for label, filters in (
        ("one state", {"state_filters": ["Ongoing"]}),
        ("two states", {"state_filters": ["Empty", "CompleteCommit"]}),
        ("states that do not exist", {"state_filters": ["ongoing", "Odd", "Ongoing"]}),
        ("only states that do not exist", {"state_filters": ["odd"]}),
        ("a producer", {"producer_id_filters": [idle.producer_id]}),
        ("a producer that is not there", {"producer_id_filters": [-1]}),
        ("a producer in another state", {"producer_id_filters": [idle.producer_id], "state_filters": ["Ongoing"]}),
        ("long ones", {"duration_filter": 3_600_000}),
        ("short ones", {"duration_filter": 0, "state_filters": ["Ongoing"]}),
        ("a pattern", {"transactional_id_pattern": "i.*|done"}),
        ("a part of a name", {"transactional_id_pattern": "on"}),
        ("an empty pattern", {"transactional_id_pattern": ""}),
        ("no pattern", {"transactional_id_pattern": "(["}),
    ):
        talk.request(label, Api.LIST_TRANSACTIONS, {**everything, **filters})
