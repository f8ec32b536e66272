import json
from collections.abc import Callable

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, Admin
from odradek.client.cluster import Cluster
from tests.console.browser import Visitor
from tests.console.conftest import eventually
from tests.console.console_process import ConsoleProcess


def test_topic_is_created_after_an_explained_refusal(
    at_desk: Visitor, client: Cluster, console: ConsoleProcess
) -> None:
    page = at_desk.open("/topics?search=shop")
    at_desk.press("Create topic")
    at_desk.fill("Name", "shop.created")
    at_desk.fill("Replicas", "4")
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("alert"), "INVALID_REPLICATION_FACTOR")
    at_desk.fill("Replicas", "3")
    at_desk.fill("Partitions", "2")
    at_desk.fill("Configs", "min.insync.replicas=2")
    at_desk.check_accessible()
    at_desk.press_in_dialog("Preview")
    at_desk.expect(
        page.get_by_role("dialog"), "Creates topic shop.created with 2 partitions and 3 replicas per partition."
    )
    at_desk.check_accessible()
    at_desk.press_in_dialog("Create topic")
    assert "Topic shop.created created." in at_desk.outcome()
    eventually(lambda: "shop.created" in client.layout(["shop.created"]).topics)
    assert len(client.topics(["shop.created"])["shop.created"].partitions) == 2
    at_desk.row("shop.created").wait_for()
    begun, done = (json.loads(line) for line in console.audit_log.read_text().splitlines()[-2:])
    assert (begun["who"], begun["action"], begun["target"]) == ("127.0.0.1", "Create topic", "topic shop.created")
    assert (done["event"], done["change"]) == ("done", begun["change"])


def test_topic_search_is_kept_in_the_url(visitor: Visitor, many_topics: str) -> None:
    prefix = many_topics
    page = visitor.open("/topics")
    visitor.fill("Search topics", prefix)
    visitor.expect(page.locator("main"), "1 to 25 of 27")
    visitor.press("Next page")
    visitor.row(f"{prefix}26").wait_for()
    assert page.get_by_label("Search topics").input_value() == prefix
    # The URL contains the search and the page.
    page.wait_for_url(f"**/topics?search={prefix}&page=2")
    visitor.check_accessible()
    page.reload()
    visitor.row(f"{prefix}26").wait_for()
    assert visitor.row(f"{prefix}24").count() == 0


def test_topic_gets_partitions_and_is_purged_and_deleted(
    visitor: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(f"treated-{visitor.page.viewport_size['width']}", *[b"x" * 100] * 7)
    page = visitor.open(f"/topics/{topic}")
    visitor.expect(visitor.cell("0", "latest"), "7")
    visitor.check_accessible()
    visitor.press("Add partitions")
    visitor.fill("New number of partitions", "1")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("alert"), "has 1 partition already, and partitions cannot be removed")
    visitor.fill("New number of partitions", "3")
    visitor.press_in_dialog("Preview")
    visitor.press_in_dialog("Add partitions")
    visitor.row("2").wait_for()
    visitor.press("Purge")
    confirm = page.get_by_role("dialog").get_by_role("button", name="Purge topic")
    assert confirm.is_disabled()
    visitor.fill(f"Type {topic} to confirm", topic)
    confirm.click()
    visitor.expect(page.locator(".o-message"), "are deleted.")
    first = TopicPartition(topic, 0)
    assert Admin(client).offsets({first: EARLIEST}) == {first: 7}
    visitor.expect(visitor.cell("0", "earliest"), "7")
    visitor.press("Delete")
    visitor.fill(f"Type {topic} to confirm", topic)
    visitor.press_in_dialog("Delete topic")
    page.wait_for_url("**/topics")
    eventually(lambda: topic not in client.layout(None).topics)


def test_topic_is_cloned_and_its_replication_factor_changed(
    at_desk: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("original", b"value", partitions=2, replicas=1, retention_ms="5000000")
    page = at_desk.open(f"/topics/{topic}")
    at_desk.press("Clone")
    at_desk.fill("Name of the new topic", topic)
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("alert"), "TOPIC_ALREADY_EXISTS")
    at_desk.fill("Name of the new topic", "twin")
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("dialog").locator("td[data-column=value]"), "5000000")
    at_desk.press_in_dialog("Clone topic")
    at_desk.expect(
        page.locator(".o-message"), "Topic twin is created with the settings of original, without its records."
    )
    page = at_desk.open("/topics/twin")
    at_desk.expect(at_desk.cell("retention.ms", "value"), "5000000")
    at_desk.press("Change replicas")
    at_desk.fill("New replication factor", "4")
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("alert"), "Enter a number from 1 to 3")
    at_desk.fill("New replication factor", "3")
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("dialog"), "Reassigns 2 partitions: 0 B to copy.")
    at_desk.check_accessible()
    at_desk.press_in_dialog("Change replicas")
    at_desk.expect(page.locator(".o-message"), "2 partitions being reassigned.")
    at_desk.expect(page.locator("main"), "2 partitions, 3 replicas of each")
    eventually(lambda: all(len(one.replicas) == 3 for one in client.topics(["twin"])["twin"].partitions))
    # A topic with a single replica would disturb a test that kills brokers.
    Admin(client).delete_topic(topic)
