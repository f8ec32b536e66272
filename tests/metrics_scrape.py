"""A node's HTTP endpoint as Prometheus sees it, read by Prometheus' own parser."""

import http.client
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes


def get(port: int, path: str, *, method: str = "GET", timeout_s: float = 20.0) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Response(response.status, response.getheader("Content-Type") or "", response.read())
    finally:
        connection.close()


class Scrape:
    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self._values[name, frozenset(labels.items())]

    def labels(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for found, labels in self._values if found == name]

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self._values}


def scrape(port: int) -> Scrape:
    response = get(port, "/metrics")
    assert response.status == 200, response
    assert response.content_type.startswith("text/plain; version=0.0.4")
    return Scrape(response.body.decode())
