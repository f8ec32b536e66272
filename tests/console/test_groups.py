from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster as Client
from odradek.client.groups import Groups
from odradek.testing import Cluster
from tests.console.browser import Visitor
from tests.console.conftest import eventually

# HTML and a control character, because a group ID may contain anything.
GROUP = "<b>read\x07ers</b>"
SHOWN = "<b>read\\x07ers</b>"


class Reader:
    """A member of the group that uses confluent-kafka."""

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


def test_consumer_resumes_from_the_reset_offsets(
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
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("alert"), "with 1 member (reader-of-tests). Offsets can be reset only while")
    reader.close()
    at_desk.expect(page.locator("main"), "No members.")
    at_desk.choose("New position", "shift")
    at_desk.fill("Offset, number of records, or time", "-5")
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("dialog").locator("td[data-column=moved]"), "-5")
    at_desk.check_accessible()
    at_desk.press_in_dialog("Reset offsets")
    assert "resumes -5 records from the committed offset in 1 partition." in at_desk.outcome()
    assert Groups(client).offsets([GROUP])[GROUP] == {TopicPartition(topic, 0): 3}
    at_desk.expect(page.locator("main"), "Lag 7 records.")
    again = Reader(cluster.bootstrap_servers, topic)
    assert again.read(1) == [b"value 3"]
    again.close()


def test_topic_page_shows_its_groups_and_a_group_is_deleted(visitor: Visitor, client: Client, topic: str) -> None:
    groups = Groups(client)
    groups.commit(GROUP, {TopicPartition(topic, 0): 4})
    page = visitor.open(f"/topics/{topic}")
    visitor.expect(page.locator("td[data-column=lag]"), "6")
    page = visitor.open("/groups?search=READ")
    page.get_by_role("button", name=f"Delete {SHOWN}").click()
    visitor.fill("Type", SHOWN)
    visitor.press_in_dialog("Delete group")
    assert f"Group {SHOWN} is deleted." in visitor.outcome()
    eventually(lambda: GROUP not in {one.id for one in groups.listings()})
    visitor.expect(page.locator("main"), "No matching groups.")
    visitor.check_accessible()
    visitor.open("/groups/one?id=gone")
    assert "GROUP_ID_NOT_FOUND" in visitor.outcome()
