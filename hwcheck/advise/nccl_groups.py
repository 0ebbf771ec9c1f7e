"""NCCL settings of each group of hosts that are alike. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, count

from hwcheck.advise.alike import Alike
from hwcheck.advise.nccl import advice_of
from hwcheck.advise.proof import HostProof
from hwcheck.advise.records import NO_CAUSES, Causes, GroupAdvice, NcclAdvice
from hwcheck.results.run_folder import HostRecord


def advise_groups(
    records: Sequence[HostRecord],
    proofs: Sequence[HostProof],
    cluster: NcclAdvice,
    causes: Causes = NO_CAUSES,
) -> tuple[GroupAdvice, ...]:
    """Return the settings of each group of hosts that are alike, in the order of the run.

    None where what ``cluster`` says is what every group says: hosts that contradict each other
    are never averaged, and those that agree need one file only. ``proofs`` are of ``records``, one
    by one.
    """
    members: dict[Alike, list[tuple[HostRecord, HostProof]]] = {}
    for record, proof in zip(records, proofs, strict=True):
        if proof.alike is not None:
            members.setdefault(proof.alike, []).append((record, proof))
    names = _folders(members)
    groups = tuple(
        GroupAdvice(
            name=names[alike],
            alike=str(alike),
            hosts=tuple(record.host for record, _ in own),
            nccl=advice_of([record for record, _ in own], [proof for _, proof in own], causes),
        )
        for alike, own in members.items()
    )
    agree = all(_assigned(group.nccl) == _assigned(cluster) for group in groups)
    return () if agree else groups


def _folders(groups: Iterable[Alike]) -> dict[Alike, str]:
    """Return a name for each group: what its GPUs are, and a number where several have them."""
    alike = list(groups)
    shared = Counter(group.slug for group in alike)
    names: dict[Alike, str] = {}
    for group in alike:
        wanted = [group.slug] if shared[group.slug] == 1 else []
        numbered = (f"{group.slug}-{number}" for number in count(1))
        names[group] = next(n for n in chain(wanted, numbered) if n not in names.values())
    return names


def _assigned(advice: NcclAdvice) -> list[tuple[str, str]]:
    return [(setting.name, setting.value) for setting in advice.settings]
