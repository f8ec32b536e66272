"""Rules that decide whether a process is dead."""
