"""What needs all GPUs of a node at once: legs, copies between pairs, NCCL's diagnostics."""
