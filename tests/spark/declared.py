"""A `spark-pipeline.yml` of Spark Declarative Pipelines: a stream of clicks, and how many there are."""

from pathlib import Path

NAME = "declared"
TOPIC = "clicks"

_SPEC = """
name: {name}
storage: file://{storage}
libraries:
  - glob: {{include: transformations/**}}
"""
_STREAM = """
from pyspark import pipelines as dp

@dp.table
def clicks():
    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", "{bootstrap}")
    rows = reader.options(subscribe="{topic}", startingOffsets="earliest", columns="value").load()
    return rows.selectExpr("cast(value as string) as value")
"""
_COUNTED = "CREATE MATERIALIZED VIEW counted AS SELECT {what} AS clicks FROM clicks"


class DeclaredPipeline:
    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.file = directory / "spark-pipeline.yml"
        self.file.write_text(_SPEC.format(name=NAME, storage=directory / "storage"))
        self._libraries = directory / "transformations"
        self._libraries.mkdir()
        (self._libraries / "clicks.py").write_text(_STREAM.format(bootstrap=bootstrap, topic=TOPIC))
        self.count("count(*)")

    def count(self, what: str) -> None:
        (self._libraries / "counted.sql").write_text(_COUNTED.format(what=what))
