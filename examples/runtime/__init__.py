"""Shared by the example pipelines: Java, the connector's jars, a Spark session and a broker.

Nothing in this package knows what a pipeline computes.
"""
