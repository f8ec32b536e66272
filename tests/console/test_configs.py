from collections.abc import Callable

from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.config_description import wait_until_applied
from tests.console.browser import Visitor


def test_a_config_is_changed_and_taken_back_with_the_difference_shown(
    anybody: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(f"configured-{anybody.page.viewport_size['width']}")
    resource = Resource(ResourceType.TOPIC, topic)
    page = anybody.open(f"/configs?topic={topic}&search=retention.ms")
    anybody.expect(anybody.cell("retention.ms", "value"), "604800000")
    assert anybody.cell("retention.ms", "help").inner_text() != "no description from this broker"
    anybody.check_accessible()
    anybody.row("retention.ms").get_by_role("button").click()
    anybody.fill("New value", "a while")
    anybody.answer("Preview")
    anybody.expect(page.get_by_role("alert"), "INVALID_CONFIG")
    anybody.fill("New value", "1000000")
    anybody.answer("Preview")
    anybody.expect(page.get_by_role("dialog").locator("td[data-column=then]"), "1000000")
    anybody.check_accessible()
    anybody.answer("Change config")
    anybody.expect(anybody.cell("retention.ms", "source"), "this topic")
    (now,) = Admin(client).configs(resource, ["retention.ms"])
    assert now.value == "1000000"
    # Two people edit one config: the second one is told of the first.
    anybody.row("retention.ms").get_by_role("button").click()
    Admin(client).alter_configs(resource, changes={"retention.ms": "2000000"})
    wait_until_applied(client, resource, "retention.ms", lambda now: now.value == "2000000")
    anybody.fill("New value", "3000000")
    anybody.answer("Preview")
    anybody.expect(page.get_by_role("alert"), "retention.ms was changed in the meantime")
    anybody.answer("Cancel")
    anybody.expect(anybody.cell("retention.ms", "value"), "2000000")
    anybody.row("retention.ms").get_by_role("button").click()
    page.get_by_label("Remove the value set at this level").check()
    anybody.answer("Preview")
    anybody.answer("Change config")
    anybody.expect(anybody.cell("retention.ms", "source"), "default")


def test_brokers_are_compared(at_desk: Visitor) -> None:
    page = at_desk.open("/configs")
    at_desk.press("Compare brokers")
    at_desk.row("node.id").wait_for()
    at_desk.check_accessible()
    at_desk.choose("Configs of", "broker=2")
    page.wait_for_url("**/configs?broker=2")
    at_desk.row("advertised.listeners").wait_for()
    at_desk.check_accessible()
