"""What every pipeline needs to run on one machine: Java, the connector's jars, a Spark session, a broker.

Nothing in here knows what a pipeline computes.
"""
