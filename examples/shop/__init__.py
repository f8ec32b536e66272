"""A shop, built with the commands that users have: a cluster, a table, totals, an audit and a chart."""
