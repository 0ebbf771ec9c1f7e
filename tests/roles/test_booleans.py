"""Every boolean of every role, given as text and in an INI inventory, counts as what it says.

``test_contract`` holds without a play that each is filtered where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.lab.namespaces import REPOSITORY
from tests.roles.machine import Machine
from tests.roles.whole import ROLES, whole_machine

pytestmark = [pytest.mark.timeout(900), pytest.mark.wide]


def booleans() -> dict[str, list[str]]:
    """Return the booleans of each role that has any."""
    found = {}
    for role in ROLES:
        file = REPOSITORY / "roles" / role / "meta/argument_specs.yml"
        options = yaml.safe_load(file.read_text())["argument_specs"]["main"]["options"]
        found[role] = [name for name, option in options.items() if option["type"] == "bool"]
    return {role: names for role, names in found.items() if names}


@pytest.fixture(scope="module")
def whole(namespaces: None) -> Iterator[tuple[Machine, dict[str, object]]]:
    with whole_machine() as (machine, variables):
        # Something for node_reboot to say.
        machine.ask("mkdir -p /run/hwcheck/reboot; echo because >/run/hwcheck/reboot/tests")
        yield machine, variables


@pytest.fixture
def machine(whole: tuple[Machine, dict[str, object]]) -> Machine:
    return whole[0]


def test_text_does_what_a_boolean_does(
    machine: Machine, whole: tuple[Machine, dict[str, object]]
) -> None:
    named = booleans()
    names = [name for each in named.values() for name in each]
    others = {name: value for name, value in whole[1].items() if name not in names}
    assert len(names) >= 20

    def said(*options: str, **variables: object) -> list[str]:
        played = machine.play(list(named), "--check", "--diff", *options, **others, **variables)
        assert played.code == 0, played.text
        # Where a template was rendered has a name of its own each time.
        lines = played.text.splitlines()
        return [line for line in lines if not line.startswith(("--- ", "+++ "))]

    machine.play(["node_hardware"], **others)  # gathers the facts, once
    outcomes = []
    for value in (False, True):
        text = str(value).lower()
        # Each comes once from an inventory and once from the command line.
        ini = machine.beside_playbook(f"{text}.ini")
        lines = [f"{name}={text}" for name in names]
        ini.write_text("\n".join(["[all:vars]", *lines[value::2], ""]))
        words = [word for line in lines[not value :: 2] for word in ("-e", line)]
        outcomes.append(said(**dict.fromkeys(names, value)))
        assert said("-i", str(ini), *words) == outcomes[-1]
    assert outcomes[0] != outcomes[1]
    assert any("node_reboot_allowed is false" in line for line in outcomes[0])
    assert any("Trusted: yes" in line for line in outcomes[1])
    assert not any("Trusted: yes" in line for line in outcomes[0])
