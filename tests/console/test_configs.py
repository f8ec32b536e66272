from collections.abc import Callable

from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.config_description import wait_until_applied
from tests.console.browser import Visitor


def test_config_is_changed_and_removed_after_a_preview(
    visitor: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(f"configured-{visitor.page.viewport_size['width']}")
    resource = Resource(ResourceType.TOPIC, topic)
    page = visitor.open(f"/configs?topic={topic}&search=retention.ms")
    visitor.expect(visitor.cell("retention.ms", "value"), "604800000")
    assert visitor.cell("retention.ms", "help").inner_text() != "no description from this broker"
    visitor.check_accessible()
    visitor.row("retention.ms").get_by_role("button").click()
    visitor.fill("New value", "a while")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("alert"), "INVALID_CONFIG")
    visitor.fill("New value", "1000000")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("dialog").locator("td[data-column=then]"), "1000000")
    visitor.check_accessible()
    visitor.press_in_dialog("Change config")
    visitor.expect(visitor.cell("retention.ms", "source"), "this topic")
    (now,) = Admin(client).configs(resource, ["retention.ms"])
    assert now.value == "1000000"
    # Two users edit one config: the second is notified of the first change.
    visitor.row("retention.ms").get_by_role("button").click()
    Admin(client).alter_configs(resource, changes={"retention.ms": "2000000"})
    wait_until_applied(client, resource, "retention.ms", lambda now: now.value == "2000000")
    visitor.fill("New value", "3000000")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("alert"), "retention.ms was changed in the meantime")
    visitor.press_in_dialog("Cancel")
    visitor.expect(visitor.cell("retention.ms", "value"), "2000000")
    visitor.row("retention.ms").get_by_role("button").click()
    page.get_by_label("Remove the value set at this level").check()
    visitor.press_in_dialog("Preview")
    visitor.press_in_dialog("Change config")
    visitor.expect(visitor.cell("retention.ms", "source"), "default")


def test_broker_configs_are_compared(at_desk: Visitor) -> None:
    page = at_desk.open("/configs")
    at_desk.press("Compare brokers")
    at_desk.row("node.id").wait_for()
    at_desk.check_accessible()
    at_desk.choose("Configs of", "broker=2")
    page.wait_for_url("**/configs?broker=2")
    at_desk.row("advertised.listeners").wait_for()
    at_desk.check_accessible()
