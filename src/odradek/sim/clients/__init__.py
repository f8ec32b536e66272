"""Clients inside a simulation: they speak the real wire, and write down what they asked and heard."""
