"""Spark's side: `format("odradek")`, a Python Data Source that reads and writes topics of Odradek and Apache Kafka.

An ordinary client. Needs `pip install odradek[spark]` on the driver and on every executor. What the driver's planning
imports stays free of numba; tasks load it.
"""
