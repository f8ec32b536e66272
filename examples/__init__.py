"""Example pipelines on Spark, run from a checkout: `python -m examples.orders`.

They are ordinary clients: they use the `odradek` command and the wire protocol, never a broker's internals.
"""
