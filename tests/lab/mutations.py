"""Every change of an idle node that the stand-ins can present."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.lab.host_mutations import of_host
from tests.lab.log_mutations import of_log
from tests.lab.mutation import Mutation
from tests.lab.nvml_keys import lay_over
from tests.lab.nvml_mutations import of_nvml
from tests.lab.scenario import Scenario, overlay

CATALOGS_ON = "h100x8"
"""The scenario on which every message of the catalogs is tried."""


def with_addresses(scenario: Scenario) -> Scenario:
    """Return the scenario with NVLinks that name the GPU at their other end by its address.

    A number would mean another GPU, or none, where one is not listed.
    """
    if scenario.nvml is None:
        return scenario
    gpus = [lay_over(scenario.nvml.get("gpu", {}), own or {}) for own in scenario.nvml["gpus"]]
    addresses = {f"gpu:{number}": gpu.get("pci_address") for number, gpu in enumerate(gpus)}
    own = {
        number: {"nvlinks": [
            {**link, "remote": f"gpu:{addresses[link['remote']]}"}
            if link.get("remote") in addresses else link for link in gpu["nvlinks"]
        ]}
        for number, gpu in enumerate(gpus) if "nvlinks" in gpu
    }  # fmt: skip
    return replace(scenario, nvml=overlay(scenario.nvml, {"gpus": own}))


def of_node(scenario: Scenario) -> Iterator[Mutation]:
    """Yield every change of a scenario."""
    yield from of_nvml(scenario)
    yield from of_host(scenario)
    yield from of_log(scenario, catalog=scenario.name == CATALOGS_ON)
