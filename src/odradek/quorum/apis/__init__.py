"""What a node of the metadata quorum answers on its controller listeners."""
