"""Copies between every two GPUs of a node: granted, whole, and as fast as their like."""
