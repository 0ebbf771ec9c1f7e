"""NVIDIA's nccl-tests: its output read, and its programs as an engine of the collectives."""
