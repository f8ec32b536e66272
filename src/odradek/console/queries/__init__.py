"""What single pages ask the cluster for, beyond the view that all share. Blocking; nothing is changed."""
