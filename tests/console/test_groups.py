from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster as Client
from odradek.client.groups import Groups
from odradek.testing import Cluster
from tests.console.browser import Visitor
from tests.console.conftest import eventually

# HTML and a control character: whoever names a group may write anything.
GROUP = "<b>read\x07ers</b>"
SHOWN = "<b>read\\x07ers</b>"


class Reader:
    """A member of the group, with one of the clients that people use."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "client.id": "reader-of-tests",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def read(self, count: int) -> list[bytes]:
        values: list[bytes] = []
        while len(values) < count:
            message = self._consumer.poll(30.0)
            assert message is not None
            assert message.error() is None, message.error()
            values.append(message.value())
        self._consumer.commit(asynchronous=False)
        return values

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="package")
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic("read-by-a-group", *(b"value %d" % number for number in range(10)))


@pytest.fixture
def reader(cluster: Cluster, topic: str) -> Iterator[Reader]:
    member = Reader(cluster.bootstrap_servers, topic)
    yield member
    member.close()


def test_offsets_are_reset_and_the_consumer_goes_on_from_there(
    at_desk: Visitor, cluster: Cluster, client: Client, topic: str, reader: Reader
) -> None:
    assert reader.read(8)[-1] == b"value 7"
    page = at_desk.open("/groups")
    at_desk.expect(page.locator("td[data-column=lag]"), "2")
    at_desk.check_accessible()
    page.get_by_role("link", name=SHOWN).click()
    at_desk.expect(page.locator("main"), "Lag 2 records.")
    at_desk.expect(page.locator("td[data-column=client]"), "reader-of-tests")
    at_desk.expect(at_desk.cell(f"{topic}-0", "committed"), "8")
    page.get_by_role("img", name="Lag of the last").wait_for()
    at_desk.check_accessible()
    at_desk.press("Reset offsets")
    at_desk.answer("Preview")
    at_desk.expect(page.get_by_role("alert"), "with 1 member (reader-of-tests). Offsets can be reset only while")
    reader.close()
    at_desk.expect(page.locator("main"), "No members.")
    at_desk.choose("New position", "shift")
    at_desk.fill("Offset, number of records, or time", "-5")
    at_desk.answer("Preview")
    at_desk.expect(page.get_by_role("dialog").locator("td[data-column=moved]"), "-5")
    at_desk.check_accessible()
    at_desk.answer("Reset offsets")
    assert "resumes -5 records from the committed offset in 1 partition." in at_desk.told()
    assert Groups(client).offsets([GROUP])[GROUP] == {TopicPartition(topic, 0): 3}
    at_desk.expect(page.locator("main"), "Lag 7 records.")
    again = Reader(cluster.bootstrap_servers, topic)
    assert again.read(1) == [b"value 3"]
    again.close()


def test_the_topic_knows_who_reads_it_and_a_group_is_deleted(anybody: Visitor, client: Client, topic: str) -> None:
    groups = Groups(client)
    groups.commit(GROUP, {TopicPartition(topic, 0): 4})
    page = anybody.open(f"/topics/{topic}")
    anybody.expect(page.locator("td[data-column=lag]"), "6")
    page = anybody.open("/groups?search=READ")
    page.get_by_role("button", name=f"Delete {SHOWN}").click()
    anybody.fill("Type", SHOWN)
    anybody.answer("Delete group")
    assert f"Group {SHOWN} is deleted." in anybody.told()
    eventually(lambda: GROUP not in {one.id for one in groups.listings()})
    anybody.expect(page.locator("main"), "No matching groups.")
    anybody.check_accessible()
    anybody.open("/groups/one?id=gone")
    assert "GROUP_ID_NOT_FOUND" in anybody.told()
