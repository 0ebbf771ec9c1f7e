"""A load on every GPU of the node at once, and what NVML shows meanwhile."""
