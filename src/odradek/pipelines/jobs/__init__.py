"""The Spark jobs of `odradek job` and `odradek pipeline`: copy topics to tables and back, and audit them.

They are ordinary clients of a cluster. Modules import pyspark, pyarrow and deltalake on demand, so that a missing
package is reported in one line.
"""
