"""`format("odradek")`: a Python Data Source for Spark that reads and writes topics of Odradek and Apache Kafka.

It is an ordinary client and needs `pip install odradek[spark]` on the driver and every executor. Only tasks import
numba; planning on the driver does not.
"""
