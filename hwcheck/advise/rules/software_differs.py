"""Driver, kernel or libraries differ from the rest."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Driver, kernel, CUDA or NCCL differ from what is declared or from most hosts",
    follows="a job over several hosts runs with several versions: it fails to start, or hosts "
    "choose different transports",
    fix="bring the host to the version of the others, and reboot where kernel or driver changed",
    confirm="cat /proc/driver/nvidia/version; uname -r; python3 -c 'import torch; "
    "print(torch.cuda.nccl.version())'",
    source="the inventory's declarations, and the majority of like hosts",
    role="validation_env",
)
def software_differs(case: Case) -> Sign | None:
    """Look for it. Versions are the same or they are not."""
    own = (
        *case.bad("driver", "driver_version"),
        *case.bad("kernel"),
        *case.bad("cuda_driver"),
        *case.bad("software_versions"),
    )
    return sign("certain", own)
