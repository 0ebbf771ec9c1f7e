from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.contract.facts import NcclSetting
from hwcheck.node.host.reader import NodeHost
from tests.node.roots import Root

SHELL = "process environment"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def settings(root: Root, **environment: str) -> dict[str, tuple[str, str]]:
    host = NodeHost(str(root.path), environment=environment, home="/home/user")
    return {found.name: (found.value, found.origin) for found in host.nccl_settings()}


def test_nothing_is_set(root: Root) -> None:
    assert settings(root, HOME="/home/user", PATH="/bin") == {}


def test_the_first_source_wins(root: Root) -> None:
    for path in ("etc/nccl.conf", "home/user/.nccl.conf", "etc/environment"):
        root.write(path, f"NCCL_ALGO={path}\n")
    root.write("etc/profile.d/gpu.sh", "export NCCL_ALGO=profile\n")
    assert settings(root, NCCL_ALGO="ring") == {"NCCL_ALGO": ("ring", SHELL)}
    assert settings(root) == {"NCCL_ALGO": ("profile", "/etc/profile.d/gpu.sh")}
    (root.path / "etc/profile.d/gpu.sh").unlink()
    assert settings(root) == {"NCCL_ALGO": ("etc/environment", "/etc/environment")}
    (root.path / "etc/environment").unlink()
    assert settings(root) == {"NCCL_ALGO": ("home/user/.nccl.conf", "/home/user/.nccl.conf")}
    (root.path / "home/user/.nccl.conf").unlink()
    assert settings(root) == {"NCCL_ALGO": ("etc/nccl.conf", "/etc/nccl.conf")}


def test_what_pam_put_into_the_process_comes_from_its_file(root: Root) -> None:
    root.write("etc/environment", "NCCL_ALGO=ring\nNCCL_DEBUG=WARN\n")
    found = settings(root, NCCL_ALGO="ring", NCCL_DEBUG="INFO", NCCL_PROTO="LL")
    assert found == {
        "NCCL_ALGO": ("ring", "/etc/environment"),
        "NCCL_DEBUG": ("INFO", SHELL),
        "NCCL_PROTO": ("LL", SHELL),
    }
    root.write("etc/profile.d/a.sh", "export NCCL_ALGO=ring\n")
    assert settings(root, NCCL_ALGO="ring")["NCCL_ALGO"] == ("ring", "/etc/profile.d/a.sh")


def test_a_named_file_replaces_the_personal_one_and_not_the_systems(root: Root) -> None:
    root.write("home/user/.nccl.conf", "NCCL_ALGO=personal\nNCCL_NTHREADS=256\n")
    root.write("etc/nccl.conf", "NCCL_ALGO=system\nNCCL_DEBUG=WARN\n")
    root.write("opt/site.conf", "NCCL_ALGO=site\n")
    found = settings(root, NCCL_CONF_FILE="/opt/site.conf")
    assert found == {
        "NCCL_ALGO": ("site", "/opt/site.conf"),
        "NCCL_CONF_FILE": ("/opt/site.conf", SHELL),
        "NCCL_DEBUG": ("WARN", "/etc/nccl.conf"),
    }
    assert settings(root, NCCL_CONF_FILE="")["NCCL_ALGO"] == ("personal", "/home/user/.nccl.conf")
    assert settings(root, NCCL_CONF_FILE="~/site.conf")["NCCL_ALGO"][0] == "system"


def test_a_file_that_a_login_script_names(root: Root) -> None:
    root.write("etc/profile.d/nccl.sh", "export NCCL_CONF_FILE=/opt/site.conf\n")
    root.write("opt/site.conf", "NCCL_PROTO=Simple\n")
    assert settings(root)["NCCL_PROTO"] == ("Simple", "/opt/site.conf")


def test_lines_as_nccl_reads_them(root: Root) -> None:
    root.write(
        "etc/nccl.conf",
        "# NCCL_ALGO=tree\n"
        " NCCL_PROTO=LL\n"  # the name is " NCCL_PROTO" then: not in force
        "NCCL_SOCKET_IFNAME==ens1f0\n"
        "NCCL_DEBUG\n"
        "NCCL_P2P_LEVEL=NVL\r\n"
        "export NCCL_NTHREADS=64\n"
        "NCCL_TOPO_FILE=" + "x" * 2000 + "\n"
        "NCCL_P2P_LEVEL=LOC\n",
    )
    found = {name: value for name, (value, _) in settings(root).items()}
    assert found == {
        "NCCL_SOCKET_IFNAME": "=ens1f0",
        "NCCL_P2P_LEVEL": "NVL",
        "NCCL_TOPO_FILE": "x" * 1023,
    }


def test_shell_scripts(root: Root) -> None:
    root.write(
        "etc/profile.d/a.sh",
        "  export NCCL_ALGO=ring NCCL_PROTO='LL,Simple'; echo NCCL_X\n"
        "#export NCCL_NTHREADS=64\n"
        'declare -x NCCL_SOCKET_IFNAME="^docker0,lo" # NCCL_Y\n'
        "if [ -n x ]; then NCCL_DEBUG=WARN; fi\n"
        "MY_NCCL_ALGO=tree\n",
    )
    root.write("etc/profile.d/b.sh", "export NCCL_ALGO=tree\n")
    root.write("etc/profile.d/c.csh", "setenv NCCL_ALGO nvls\n")
    assert settings(root) == {
        "NCCL_ALGO": ("tree", "/etc/profile.d/b.sh"),
        "NCCL_DEBUG": ("WARN", "/etc/profile.d/a.sh"),
        "NCCL_PROTO": ("LL,Simple", "/etc/profile.d/a.sh"),
        "NCCL_SOCKET_IFNAME": ("^docker0,lo", "/etc/profile.d/a.sh"),
    }


def test_nothing_but_nccl_leaves_the_node(root: Root) -> None:
    secret = "AWS_SECRET_ACCESS_KEY=hunter2\nexport TOKEN=hunter2\n"
    for path in ("etc/environment", "etc/nccl.conf", "etc/profile.d/a.sh", "home/user/.nccl.conf"):
        root.write(path, secret + "NCCL_DEBUG=WARN\n")
    assert "hunter2" not in repr(settings(root, TOKEN="hunter2", NOT_NCCL_X="hunter2"))


def test_the_process_itself_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NCCL_ALGO", "ring")
    assert NodeHost(str(tmp_path)).nccl_settings() == [NcclSetting("NCCL_ALGO", "ring", SHELL)]
    assert NodeHost().home().startswith("/")
