"""Spark finds this package by its name, so that `spark.read.format("odradek")` works wherever it is installed."""

from odradek.pipelines.spark.source import OdradekSource as DefaultSource

__all__ = ["DefaultSource"]
