"""The clock, disk and threads of a real machine."""
