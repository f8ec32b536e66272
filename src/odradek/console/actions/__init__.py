"""The changes that the console can make: each has a preview, an execution and an audit log entry."""
