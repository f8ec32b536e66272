"""The active controller: commands in, metadata records and a response out. It is pure: no clock, disk or network."""
