"""Jobs and pipelines on Spark: topics into tables and back, checked. What `odradek job` and `odradek pipeline` do.

Ordinary clients of a cluster. pyspark, pyarrow and deltalake are imported by the modules that need them, so that what
is missing is said in one line.
"""
