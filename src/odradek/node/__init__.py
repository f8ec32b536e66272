"""A node: the machines of the core joined to real sockets, disks and clocks, and their life from start to stop."""
