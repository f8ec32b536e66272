"""Tables that a job appends to: tasks write data files, the driver commits them with a marker (job, batch).

Readers ignore files that are not committed.
"""
