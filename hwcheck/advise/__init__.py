"""From findings to causes and actions; from legs to NCCL settings with their evidence."""
