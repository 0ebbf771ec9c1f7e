"""Restart a service that was started before a file that it reads was written.

usage: restart.py check|apply SERVICE FILE... Prints what that changes, or would.
"""

import os
import subprocess
import sys
import time

SHOW = ["systemctl", "show", "--property=ActiveState,InactiveExitTimestampMonotonic"]


def main(mode, service, *files):
    """Do it; mode is check or apply."""
    lines = subprocess.check_output([*SHOW, service], universal_newlines=True).splitlines()
    says = dict(line.split("=", 1) for line in lines)
    if says["ActiveState"] != "active":
        return
    booted_s = time.time() - time.monotonic()
    started_s = booted_s + int(says["InactiveExitTimestampMonotonic"]) / 1e6
    newer = [file for file in files if os.path.exists(file) and os.stat(file).st_mtime > started_s]
    if newer:
        print(f"{service}: older than {', '.join(newer)}")
        if mode == "apply":
            subprocess.check_call(["systemctl", "restart", service])  # noqa: S607


main(*sys.argv[1:])
