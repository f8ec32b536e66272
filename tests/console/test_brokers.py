import time
from collections.abc import Callable, Iterator

import pytest

from odradek.client.address import Address
from odradek.client.cluster import Cluster as Client
from odradek.client.quorum import QuorumAdmin
from odradek.testing import Cluster
from tests.console.browser import Visitor
from tests.patience import withheld_seconds


@pytest.mark.parametrize("path", ["/", "/brokers", "/brokers/1", "/quorum"])
def test_every_page_shows_a_healthy_cluster_in_its_status(
    visitor: Visitor, path: str, new_topic: Callable[..., str]
) -> None:
    page = visitor.open(path)
    visitor.expect(page.get_by_role("status"), "Healthy: 3 brokers")
    visitor.check_accessible()


def test_search_finds_topics_and_brokers_by_keyboard(visitor: Visitor, new_topic: Callable[..., str]) -> None:
    width = visitor.page.viewport_size["width"]
    topic = new_topic(f"findable-{width}")
    page = visitor.open("/")
    visitor.expect(page.get_by_role("status"), "Healthy")
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search")
    field.wait_for()
    page.keyboard.type("no/such")
    visitor.expect(page.get_by_role("dialog"), "No matches.")
    field.fill("findable")
    visitor.expect(page.get_by_role("option"), topic)
    visitor.check_accessible()
    field.fill("broker 2")
    visitor.expect(page.get_by_role("option"), "Broker 2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/brokers/2")


def test_theme_survives_a_reload(at_desk: Visitor) -> None:
    page = at_desk.open("/brokers")
    was_dark = page.evaluate("() => document.body.classList.contains('body--dark')")
    page.get_by_role("button", name="Toggle theme").click()
    page.wait_for_function(f"() => document.body.classList.contains('body--dark') !== {str(was_dark).lower()}")
    at_desk.check_accessible()
    page.reload()
    page.wait_for_function(f"() => document.body.classList.contains('body--dark') !== {str(was_dark).lower()}")
    page.get_by_role("button", name="Toggle theme").click()


def test_voter_is_removed_and_added_again(at_desk: Visitor, client: Client) -> None:
    page = at_desk.open("/quorum")
    status = QuorumAdmin(client).describe()
    voter = status.voters[-1]
    at_desk.row(str(voter.id)).get_by_role("button", name=f"Remove voter {voter.id}").click()
    at_desk.expect(page.get_by_role("dialog"), "2 voters remain, of which 0 may fail")
    at_desk.fill(f"Type {voter.id} to confirm", str(voter.id))
    at_desk.check_accessible()
    at_desk.press_in_dialog("Remove voter")
    at_desk.expect(at_desk.cell(str(voter.id), "role"), "observer")
    assert voter.id not in {one.id for one in QuorumAdmin(client).describe().voters}
    at_desk.row(str(voter.id)).get_by_role("button", name=f"Add voter {voter.id}").click()
    at_desk.fill("Address of its controller listener", str(Address(voter.endpoints[0].host, voter.endpoints[0].port)))
    at_desk.check_accessible()
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("dialog"), "joins the voter set: 3 voters, of which 1 may fail")
    at_desk.press_in_dialog("Add voter")
    at_desk.expect(at_desk.cell(str(voter.id), "role"), "voter")
    assert voter.id in {one.id for one in QuorumAdmin(client).describe().voters}


@pytest.fixture
def killed(cluster: Cluster) -> Iterator[int]:
    """A broker to kill; it is restarted after the test."""
    broker = cluster.brokers[-1]
    yield broker
    cluster.restart(broker)
    cluster.wait_until_healthy()


def test_killed_broker_is_shown_and_named_as_the_reason_of_failures(
    at_desk: Visitor, cluster: Cluster, killed: int, new_topic: Callable[..., str], measured: Callable[[str], None]
) -> None:
    new_topic("watched", min_insync_replicas="3")
    page = at_desk.open("/brokers")
    at_desk.expect(page.get_by_role("status"), "Healthy")
    withheld_s = withheld_seconds()
    cluster.kill(killed)
    began_s = time.monotonic()
    at_desk.expect(at_desk.cell(str(killed), "state"), " since ")
    seen_s = time.monotonic() - began_s
    measured(f"console: a killed broker is seen after {seen_s:.1f} s")
    assert seen_s - (withheld_seconds() - withheld_s) < 2.0
    at_desk.expect(at_desk.cell(str(killed), "state"), "fenced since")
    measured(f"console: the cluster has fenced it after {time.monotonic() - began_s:.1f} s")
    at_desk.expect(page.get_by_role("status"), "below min.insync.replicas")
    at_desk.expect(page.get_by_role("status"), f"because broker {killed} has been down since")
    at_desk.check_accessible()
    at_desk.picture("broker-down")
    at_desk.open("/topics/watched/messages")
    at_desk.press("Produce message")
    at_desk.fill("Value", "not now")
    at_desk.press_in_dialog("Preview")
    at_desk.press_in_dialog("Produce message")
    assert "watched-0 has 2 of the 3 in-sync replicas that min.insync.replicas requires" in at_desk.outcome()
    assert f"because broker {killed} has been down since" in at_desk.outcome()
    # Pages opened before and after the death both show the fenced broker.
    page = at_desk.open(f"/brokers/{killed}")
    at_desk.expect(page.locator("main"), "fenced since")
    page = at_desk.open("/brokers")
    at_desk.row(str(killed)).get_by_role("button", name=f"Unregister Broker {killed}").click()
    at_desk.expect(page.get_by_role("dialog"), "assigned to it and offline until reassigned")
    at_desk.press_in_dialog("Cancel")
