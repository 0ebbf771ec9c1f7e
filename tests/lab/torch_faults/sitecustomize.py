"""A host whose memory flips a bit in what its ranks send; put first on PYTHONPATH.

``FLIP=0`` in the environment of a rank keeps it well.
"""

import os

import torch
import torch.distributed as dist


def flip(tensor):
    """Flip one bit of a float: a high one of its exponent, so that no sum hides it."""
    if os.environ.get("FLIP") != "0":
        tensor.view(torch.int32)[tensor.numel() // 2] ^= 1 << 29


def all_reduce(tensor, *args, **options):
    flip(tensor)
    return whole_all_reduce(tensor, *args, **options)


def batch_isend_irecv(moves):
    for move in moves:
        if move.op is dist.isend:
            flip(move.tensor)
    return whole_batch(moves)


whole_all_reduce, whole_batch = dist.all_reduce, dist.batch_isend_irecv
dist.all_reduce, dist.batch_isend_irecv = all_reduce, batch_isend_irecv
