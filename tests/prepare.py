"""Before `make test`: download what the tests need and build class archives, so that no test waits for it.

What is in the cache already takes no time. What is missing is reported here, and by the tests that need it.
"""

import sys
import time
from collections.abc import Callable
from typing import Final

from examples.runtime.errors import PipelineError
from examples.runtime.jars import connector_jars, jars_directory
from examples.runtime.java import find_java
from tests.components import ComponentMissing, kafkajs_modules, quix_streams_python
from tests.console.browser import axe_source
from tests.kafka.apache_kafka import kafka_libs, kafka_streams_libs
from tests.kafka.class_archive import archive_flags
from tests.spark.quick_spark import quick_environment


def _connector() -> object:
    return connector_jars(jars_directory(), on_fetch=lambda jar: None)


def _spark() -> object:
    find_java()
    return quick_environment()


COMPONENTS: Final[dict[str, Callable[[], object]]] = {
    "Apache Kafka's jars": kafka_libs,
    "Apache Kafka's class archive": lambda: archive_flags(kafka_libs()),
    "jars of Spark's Kafka connector": _connector,
    "Spark's class archive": _spark,
    "kafkajs": kafkajs_modules,
    "axe-core": axe_source,
}
ONLY_IN_PROOF: Final[dict[str, Callable[[], object]]] = {
    "jars of Kafka Streams": kafka_streams_libs,
    "Quix Streams": quix_streams_python,
}


def prepare(components: dict[str, Callable[[], object]]) -> None:
    for name, resolve in components.items():
        print(f"{name}: ", end="", flush=True)
        start = time.monotonic()
        try:
            resolve()
        except (ComponentMissing, PipelineError) as problem:
            print(f"missing: {problem}", flush=True)
        else:
            print(f"ready after {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    prepare(COMPONENTS | (ONLY_IN_PROOF if "--proof" in sys.argv[1:] else {}))
