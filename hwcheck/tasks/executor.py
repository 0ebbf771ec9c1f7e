"""How the tasks of one command line follow each other.

``hwcheck`` names this executor itself; ``fab`` finds it through ``fabric.yaml``.
"""

from __future__ import annotations

from typing import Any

import fabric
from invoke import Exit
from invoke.parser import ParserContext

from hwcheck.errors import UsageError
from hwcheck.tasks.output import say

PROMPTS = {
    "prompt-for-login-password": "set ansible_password, which may be vaulted",
    "prompt-for-passphrase": "ssh-add the key to an ssh agent",
    "prompt-for-sudo-password": "set ansible_become_password, which may be vaulted",
}
"""The flags that ask for a secret, which no connection of hwcheck would get; what to do instead."""


class Executor(fabric.Executor):  # type: ignore[misc]
    """Fabric's executor, which says what it did not run and refuses what means something else."""

    def execute(self, *tasks: ParserContext) -> dict[Any, Any]:
        """Run the tasks in turn; one that ends with another exit code than 0 is the last."""
        try:
            refuse_core_flags(self.core[0].args, self.core.remainder)
        except UsageError as error:
            say(f"hwcheck: {error}")
            raise Exit(code=2) from None
        results: dict[Any, Any] = {}
        for position, task in enumerate(tasks, 1):
            try:
                results |= super().execute(task)
            except Exit as ended:
                left = ", ".join(later.name for later in tasks[position:])
                if left and ended.code:
                    say(f"hwcheck: {task.name} ended with exit code {ended.code}; not run: {left}")
                raise
        return results


def refuse_core_flags(flags: Any, remainder: str) -> None:
    """Refuse what Invoke and Fabric understand otherwise than its user does. Raises UsageError."""
    file = flags["config"].value
    if file:
        raise UsageError(
            f"-f {file}: before the task that is Invoke's own configuration file, and hwcheck "
            f"has none; for an inventory: validate --hosts {file}"
        )
    ssh_file = flags["ssh-config"].value
    if ssh_file:
        raise UsageError(
            f"-S {ssh_file}: not used; name it as ssh_config_path in ~/.fabric.yaml, or write what "
            "it says into ~/.ssh/config or ansible_ssh_common_args"
        )
    if flags["dry"].value:
        raise UsageError("--dry: a visit cannot be tried without making it; leave it out")
    for prompt, instead in PROMPTS.items():
        if flags[prompt].value:
            raise UsageError(f"--{prompt}: not used; {instead}")
    if remainder:
        raise UsageError(f"-- {remainder}: hwcheck runs no command of yours; leave it out")
