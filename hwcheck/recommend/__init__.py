"""From findings to actions, and from legs to NCCL settings."""
