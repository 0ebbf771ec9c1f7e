"""Readers of other tools' output: nccl-tests, ``nvidia-smi topo``, NCCL's own log, kernel logs."""
