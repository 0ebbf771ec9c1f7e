"""hwcheck: which GPU nodes can be trusted, why the others cannot, and which NCCL settings fit."""

__version__ = "0.1.0"
