"""What the pipelines need: Java 17 and the jars of Spark's Kafka connector."""

from pathlib import Path

import pytest

from pipelines.runtime.errors import PipelineError
from pipelines.runtime.jars import connector_jars, jars_directory
from pipelines.runtime.java import Java, find_java
from tests import components


@pytest.fixture(scope="session")
def java() -> None:
    components.require("Java 17", _java)


@pytest.fixture(scope="session")
def spark_jars(java: None) -> tuple[Path, ...]:
    return components.require("Spark's Kafka connector", _jars)


def _java() -> Java:
    try:
        return find_java()
    except PipelineError as problem:
        raise components.ComponentMissing(str(problem)) from problem


def _jars() -> tuple[Path, ...]:
    try:
        return tuple(connector_jars(jars_directory(), on_fetch=lambda jar: None))
    except PipelineError as problem:
        raise components.ComponentMissing(str(problem)) from problem
