"""What a node counts of itself, on its way and for next to nothing: plain attributes, no locks, no exposition."""
