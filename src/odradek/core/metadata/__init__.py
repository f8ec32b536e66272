"""The cluster as every node sees it: the records of the metadata log, and the image that they add up to."""
