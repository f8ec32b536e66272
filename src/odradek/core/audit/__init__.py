"""Events of the audit log, built from what has happened: without files, clocks or threads."""
