"""The Java that Spark needs."""

from examples.runtime.errors import PipelineError
from examples.runtime.java import Java, find_java
from tests import components


def require_java() -> Java:
    return components.require("Java 17", _java)


def _java() -> Java:
    try:
        return find_java()
    except PipelineError as problem:
        raise components.ComponentMissing(str(problem)) from problem
