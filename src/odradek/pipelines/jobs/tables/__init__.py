"""Tables that a job appends to: tasks write data files, the driver commits them with a marker (job, batch).

A file counts from the moment it is committed; files that are not are passed over by readers.
"""
