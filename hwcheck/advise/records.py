"""The records that advice consists of, in the order in which they are made. Pure data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hwcheck.judge.records import Finding

CONFIDENCES = ("certain", "likely", "possible")
"""certain: a reading says it itself. likely: the findings fit, and nothing else known does.
possible: worth ruling out first. Best first."""
SLUG_CHARACTERS = 40


@dataclass(frozen=True)
class Diagnosis:
    """A cause with the hosts on which it was found.

    ``confidence`` is the best of any host, ``outcome`` the worst of what it explains, ``explains``
    the checks that it explains, ``observed`` short lines with hosts folded, ``effect`` what
    it does to jobs.
    """

    cause: str
    title: str
    outcome: str
    confidence: str
    hosts: tuple[str, ...]
    observed: tuple[str, ...]
    explains: tuple[str, ...]
    effect: str
    fix: str
    command: str
    role: str
    source: str


@dataclass(frozen=True)
class Causes:
    """What is wrong in a run.

    ``diagnoses`` are folded over the hosts, the gravest first; ``by_host`` has the causes of each
    host that has any, the likeliest first; ``explained`` are the findings that a cause accounts
    for, with the title of the first that does.
    """

    diagnoses: tuple[Diagnosis, ...]
    by_host: dict[str, tuple[str, ...]]
    explained: dict[Finding, str]


NO_CAUSES = Causes((), {}, {})


@dataclass(frozen=True)
class Platform:
    """What hosts share that one setting may be for: all that decides how NCCL sends its data.

    ``gpus`` are the models with their number, ``topology`` the ways between the GPUs with theirs,
    ``library`` the NCCL that ran and ``driver`` the driver's version; empty where not known.
    """

    gpus: str
    topology: str
    library: str
    driver: str

    def __str__(self) -> str:
        """Return it in words."""
        driver = f"driver {self.driver}" if self.driver else ""
        return ", ".join(part for part in (self.gpus, self.topology, self.library, driver) if part)

    @property
    def slug(self) -> str:
        """Return a name for a folder: letters, digits and hyphens of what ``gpus`` says."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.gpus.lower().replace("nvidia", ""))
        return plain.strip("-")[:SLUG_CHARACTERS].strip("-") or "gpu"


KINDS = (
    *("neither", "defect", "net_faster", "off_mends", "unproven", "split", "defaults"),
    *("off_faster", "sys_faster"),
)
"""What one collective on one host proves. The first of these that any collective of a host gives
is the host's own: a setting must not harm one collective for another's sake.

neither: a leg without P2P is bad too, so P2P is not shown to be the cause. defect: P2P is bad on a
host with NVLinks. net_faster: sockets beat the default, and P2P off does not make up for it.
off_mends: bad by default, clean without P2P. unproven: the legs do not say. split: of a host, where
one collective is faster without P2P and another one with it. defaults: nothing beats them.
off_faster: without P2P it is faster, beyond the spread and 10 %. sys_faster: so it is with P2P
through the CPUs. Collectives that show no difference do not stand against a gain of another.

"Without P2P" is without it over PCIe only (the leg nvlink_only) on a host that has pairs of both
kinds: NVLinks are never turned off."""


@dataclass(frozen=True)
class Proof:
    """What one collective proves on one host; busbw in 1e9 bytes/s, None where not measured.

    ``off`` and ``sys`` say how the leg without P2P, and that with P2P everywhere, do against the
    default: ``faster``, ``slower``, ``same``, ``broken``, or nothing where it cannot be said.
    ``other`` names the leg without P2P.
    """

    collective: str
    kind: str
    detail: str
    size_bytes: int | None = None
    default_gbps: float | None = None
    p2p_off_gbps: float | None = None
    library: str = ""
    off: str = ""
    sys: str = ""
    other: str = "p2p_off"
    sys_gbps: float | None = None


@dataclass(frozen=True)
class HostProof:
    """One host: its kind (see ``KINDS``; empty without a usable NCCL leg) and why.

    ``nvlinks`` counts the active NVLinks over all GPUs; None where that could not be read.
    ``models`` are the GPU models that it names. ``setting`` is what its kind speaks for, name and
    value; empty where it is nothing to set. ``cpu_only`` where it has no GPU and none is
    declared: a setting of NCCL is nothing to it. ``platform`` is None where it names no GPU.
    """

    host: str
    kind: str
    nvlinks: int | None = None
    proofs: tuple[Proof, ...] = field(default_factory=tuple)
    models: tuple[str, ...] = ()
    cpu_only: bool = False
    setting: tuple[str, str] | None = None
    platform: Platform | None = None

    @property
    def why(self) -> str:
        """The detail that made the host's kind."""
        if self.kind == "split":
            return "; ".join(f"{proof.collective}: {proof.detail}" for proof in self.proofs)
        return next((proof.detail for proof in self.proofs if proof.kind == self.kind), "")


@dataclass(frozen=True)
class Setting:
    """One ``NCCL_*`` variable with the reason and the figures that it rests on.

    ``evidence`` are the legs with their figures, one line each; ``measured_with`` the NCCL and the
    driver that they are of; ``retest`` says after what it has to be tested again.
    """

    name: str
    value: str
    reason: str
    evidence: tuple[str, ...] = ()
    measured_with: str = ""
    retest: str = ""


@dataclass(frozen=True)
class NcclAdvice:
    """NCCL settings for the hosts of a run; empty ``settings`` means: leave everything unset.

    ``summary`` is one line for people; ``evidence`` are the figures, one line each. ``versions``
    are those of every NCCL that was found on the hosts, such as ``2.27.5``: they decide what a
    file may hold. ``hosts`` are those that the settings are for. ``unset`` says why each setting
    of the network is left unset, one line each.
    """

    settings: tuple[Setting, ...]
    summary: str
    evidence: tuple[str, ...]
    versions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupAdvice:
    """NCCL settings for hosts that are alike, which ``alike`` says in words.

    ``name`` is that of their folder in the run folder.
    """

    name: str
    alike: str
    hosts: tuple[str, ...]
    nccl: NcclAdvice


@dataclass(frozen=True)
class Action:
    """What to do about findings of one kind.

    ``check`` is empty where it is about a host as a whole, or about several ``checks`` that could
    not be measured for one reason; ``title`` names it in every case.
    ``hosts`` are all hosts it concerns; ``evidence`` are short lines, equal ones merged
    (``gpu3 on node[01-02]: power_limit_w 500 W; limit: ...``). ``explained_by`` are the titles of
    the diagnoses that account for every finding behind it; empty where one is left.
    """

    check: str
    outcome: str
    cause: str
    fix: str
    command: str
    role: str
    hosts: tuple[str, ...]
    evidence: tuple[str, ...]
    title: str = "no whole answer"
    explained_by: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """Everything that a run tells its operator to do.

    ``groups`` are the hosts that are alike, each with its own settings: empty where ``nccl`` is
    right for all of them.
    """

    actions: tuple[Action, ...]
    nccl: NcclAdvice
    causes: Causes = NO_CAUSES
    groups: tuple[GroupAdvice, ...] = ()

    @property
    def open_actions(self) -> tuple[Action, ...]:
        """Return the actions about findings that no cause accounts for."""
        return tuple(action for action in self.actions if not action.explained_by)
