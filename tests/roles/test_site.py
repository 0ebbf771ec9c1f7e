"""site.yml as the README has it, with what roles do without a word in the inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.roles.readme import what_would_change
from tests.roles.whole import whole_machine

NAMED = ("nvidia_repository_url", "nvidia_repository_suite", "nvidia_repository_key")
"""Nobody reaches NVIDIA's own repository here."""


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_the_command_of_the_readme_says_what_would_change(namespaces: None, tmp_path: Path) -> None:
    with whole_machine() as (machine, variables):
        packages = machine.ask("dpkg-query -W")
        named = {name: variables[name] for name in NAMED}
        named["nvidia_repository_key"] = str(machine.beside_playbook("nvidia.asc"))
        done = what_would_change(machine, tmp_path, **named)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "changed" in done.stdout
        assert "+Types: deb" in done.stderr
        assert machine.ask("dpkg-query -W") == packages
