"""The simulator: real nodes on virtual time, network and disk. A run is a function of its seed."""
