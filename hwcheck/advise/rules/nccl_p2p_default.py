"""NCCL versions on both sides of a change of default."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule
from hwcheck.judge.nccl_default import crosses, rule_changes


@rule(
    title="NCCL decides about PCIe P2P by other rules here than on most hosts, or in torch than in "
    "other programs (2.23 changed them)",
    follows="the same hardware takes another transport: on AMD CPUs with more than two GPUs P2P "
    "beyond PCIe switches is on up to 2.22 and off from 2.23",
    fix="bring all hosts, and torch and the system, to one NCCL; when PCIe P2P is "
    "wanted on 2.23 or newer, prove it for every collective before NCCL_P2P_LEVEL is set",
    confirm="python3 -c 'import torch; print(torch.cuda.nccl.version())'; ldconfig -p | grep "
    "libnccl; NCCL_DEBUG=INFO with any job",
    source="NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckP2p, in 2.22 and 2.23",
)
def nccl_p2p_default(case: Case) -> Sign | None:
    """Look for it. GPUs with NVLink are not concerned, nor are CPUs of Intel and ARM."""
    versions = case.bad("software_versions", "nccl_version", "system_nccl_version")
    own = [finding for finding in versions if crosses(f"{finding.value} {finding.limit}")]
    own += case.of_legs("nccl_p2p_default")
    paths = [str(path) for path in case.values("topology", "path").values()]
    if not paths or any(path.startswith("NV") for path in paths):
        return None
    if not rule_changes(case.cpu_vendor, len(case.known.models)):
        return None
    return sign("certain", (*own, *versions, *case.slow(), *case.p2p_loses()) if own else ())
