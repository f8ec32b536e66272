"""Found by Spark by its name: `spark.read.format("odradek")` works wherever the package is installed."""

from odradek.pipelines.spark.source import OdradekSource as DefaultSource

__all__ = ["DefaultSource"]
