"""What a simulated controller is made with: a wheel of hwcheck, an inventory, and variables."""

from __future__ import annotations

import sysconfig
import zipfile
from pathlib import Path

from tests.lab.namespaces import REPOSITORY

STANDS_ON = ("openssh-client", "python3-venv")
"""Packages of the Debian family."""

PROGRAM = "#!python\nfrom hwcheck.cli.program import main\nmain()\n"
WHEEL = {
    "hwcheck_here.pth": f"{REPOSITORY}\n{sysconfig.get_path('purelib')}\n",
    "hwcheck-0.1.0.data/scripts/hwcheck": PROGRAM,
    "hwcheck-0.1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hwcheck\nVersion: 0.1.0\n",
    "hwcheck-0.1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
    "hwcheck-0.1.0.dist-info/RECORD": "",
}
"""hwcheck as it is here, started by the interpreter of the environment that has the wheel."""
INVENTORY = "all:\n  hosts:\n    gpu[1:3]: {ansible_user: hwcheck}\n"


def write_files(folder: Path) -> dict[str, object]:
    """Write wheel and inventory; return the variables of a controller that has them."""
    wheels, files = folder / "wheels", folder / "files"
    for each in (wheels, files):
        each.mkdir()
    with zipfile.ZipFile(wheels / "hwcheck-0.1.0-py3-none-any.whl", "w") as wheel:
        for name, text in WHEEL.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o100755 << 16  # pip asks whether a script may be run
            wheel.writestr(info, text)
    (files / "cluster.yml").write_text(INVENTORY)
    (files / "notify.yml").write_text("metrics: /var/lib/hwcheck/hwcheck.prom\n")
    return {
        "hwcheck_controller_enabled": True,
        "hwcheck_controller_wheels": str(wheels),
        "hwcheck_controller_wheelhouse": "/opt/wheels of ours",
        "hwcheck_controller_files": str(files),
        "hwcheck_controller_at": "03:15",
        "hwcheck_controller_options": ["--notify", "/etc/hwcheck/notify.yml", "--budget", "3h"],
    }
