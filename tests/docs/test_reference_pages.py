"""The hand-written reference pages name everything that the code accepts."""

import inspect
import re
from pathlib import Path

import pytest

from odradek.testing import Cluster
from tools.references import _root

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def first_cells(page: str) -> str:
    """What the pages' tables explain."""
    rows = re.findall(r"^\| (.+?) \|", (REFERENCE / page).read_text(), re.MULTILINE)
    return "\n".join(rows)


@pytest.mark.needs("yaml")
def test_every_key_of_a_pipeline_is_explained() -> None:
    from odradek.pipelines.jobs.pipeline import definition

    explained = first_cells("pipeline-yaml.md")
    keys = {*definition._TOP, *definition._SOURCE, *definition._SINK, *definition._FUNCTION}
    assert not [key for key in sorted(keys) if not re.search(rf"`{key}`|{key}: ", explained)]


@pytest.mark.parametrize("job", ["ingest", "audit", "load", "rewrite", "skew"])
def test_every_option_of_a_job_is_explained(job: str) -> None:
    page = (REFERENCE / "jobs.md").read_text()
    generic = {"--help", "--timeout", "--format", "--bootstrap", "--command-config", "--master", "--remote", "--conf"}
    options = {
        parameter.opts[0] for parameter in _root().commands["job"].commands[job].params if parameter.opts[0][0] == "-"
    }
    assert not [option for option in sorted(options - generic) if option not in page]


def test_every_method_of_a_test_cluster_is_explained() -> None:
    explained = first_cells("testing.md")
    members = {name for name, _ in inspect.getmembers(Cluster) if not name.startswith("_")}
    assert not [name for name in sorted(members) if not re.search(rf"`{name}\b", explained)]


@pytest.mark.needs("pyarrow")
def test_every_parameter_of_read_topic_is_explained() -> None:
    from odradek import read_topic

    explained = first_cells("read-topic.md")
    assert not [
        name for name in inspect.signature(read_topic).parameters if name != "topic" and f"`{name}`" not in explained
    ]
