"""What must never be false, checked after a run. Knows only what clients saw; nothing of the code that served them."""
