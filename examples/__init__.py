"""Data pipelines on Spark, run from a checkout: `python -m examples.orders`.

They are ordinary clients: they know the `odradek` command and the wire, never a broker's internals.
"""
