"""Where no lab can be built, its tests say why; in CI they fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.lab import namespaces as lab_namespaces
from tests.lab.conftest import refuse
from tests.lab.namespaces import why_not
from tests.lab.network import PREFIX, ip

ASK = "from tests.lab.namespaces import why_not; print(why_not())"


def nothing_tried() -> bool:
    mark = f"{PREFIX}-try{os.getpid()}"
    folders = Path(tempfile.gettempdir()).glob(f"{mark}-*")
    return mark not in ip("netns", "list") and not list(folders)


def test_here_it_can_be_built(namespaces: None) -> None:
    assert why_not() == ""
    assert nothing_tried()


def test_a_user_who_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not() == "not root"


def test_a_tool_that_is_missing(
    namespaces: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lab_namespaces, "SYSTEM", str(tmp_path))
    assert why_not() == (
        "no ip, mount, nsenter, ssh-keygen, sshd, tc, unshare: apt-get install -y iproute2 mount "
        "util-linux openssh-client openssh-server"
    )


def test_a_root_that_may_make_no_namespaces(namespaces: None) -> None:
    """As in a container without privileges."""
    command = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run([*command, sys.executable, "-c", ASK], capture_output=True, text=True)
    assert done.stdout.startswith("network namespaces are refused: ")
    assert "not permitted" in done.stdout


def test_mounts_that_are_refused(
    namespaces: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = tmp_path / "inside.sh"
    refused.write_text("mount -t nosuchfilesystem hwlab /run\n")
    monkeypatch.setattr(lab_namespaces, "INSIDE", refused)
    reason = why_not()
    assert reason.startswith("mount namespaces with an overlay are refused: try: mount: /run: ")
    assert nothing_tried()


@pytest.mark.parametrize("ci", ["", "0", "false"])
def test_it_is_skipped_outside_ci(ci: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="no simulated hosts: not root"):
        refuse("not root", ci)


@pytest.mark.parametrize("ci", ["1", "true", "True", "woodpecker"])
def test_it_is_a_failure_in_ci(ci: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="CI must run the lab tests: not root"):
        refuse("not root", ci)
