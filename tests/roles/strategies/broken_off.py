"""Ansible's linear strategy, which writes down what it does and is killed before one task.

HWCHECK_TEST_BEGUN names a file: a line for each task that is begun, and "changed" below one that
changed something. HWCHECK_TEST_LAST is the number of the last task (from 1); empty: all are done.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from ansible.plugins.strategy.linear import StrategyModule as Linear


class StrategyModule(Linear):  # type: ignore[misc]
    """What Ansible loads."""

    def __init__(self, tqm: Any) -> None:
        super().__init__(tqm)
        self._begun = 0

    def _queue_task(self, host: Any, task: Any, task_vars: Any, play_context: Any) -> Any:
        if task.get_name() == "Gathering Facts":  # only in the first run: later ones know them
            return super()._queue_task(host, task, task_vars, play_context)
        if str(self._begun) == os.environ["HWCHECK_TEST_LAST"]:
            os.kill(os.getpid(), signal.SIGKILL)
        self._begun += 1
        self._write(task.get_name())
        return super()._queue_task(host, task, task_vars, play_context)

    def _process_pending_results(self, *arguments: Any, **more: Any) -> Any:
        results = super()._process_pending_results(*arguments, **more)
        for result in results:
            if result.is_changed():
                self._write("changed")
        return results

    def _write(self, line: str) -> None:
        with open(os.environ["HWCHECK_TEST_BEGUN"], "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
