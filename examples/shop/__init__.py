"""A shop from nothing, by the commands that users have: a cluster, a table, totals, an audit, a picture."""
