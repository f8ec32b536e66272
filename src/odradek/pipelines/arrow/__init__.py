"""Topics as Arrow columns: from log directories and from brokers, by compiled code.

An ordinary client: it knows the wire and the files, and nothing of nodes. Needs `pip install odradek[arrow]`, and is
imported on first need, since numba and pyarrow take a second.
"""
