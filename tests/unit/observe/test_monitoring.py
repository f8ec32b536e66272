"""The alerts and the dashboard that are shipped speak of nothing that a node does not serve."""

import json
import re

from tests.metrics_documented import DOCUMENT, mbean_metrics, own_metrics

FILES = DOCUMENT.parents[1] / "monitoring"
NAME = re.compile(r"\b(?:kafka|odradek|process)_[a-z0-9_]+")


def expressions() -> list[str]:
    alerts = re.findall(r"^ +expr: (.+)$", (FILES / "alerts.yml").read_text(), re.MULTILINE)
    dashboard = json.loads((FILES / "dashboard.json").read_text())
    return alerts + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_dashboards_use_only_served_metrics() -> None:
    served = {name for names in mbean_metrics().values() for name in names} | own_metrics()
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(used) > 20
    unknown = {one for one in used if one not in served and not one.startswith("process_")}
    assert unknown == set()


def test_dashboard_expressions_are_balanced() -> None:
    for expression in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression


def test_dashboard_panels_do_not_overlap() -> None:
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len({panel["id"] for panel in panels})
