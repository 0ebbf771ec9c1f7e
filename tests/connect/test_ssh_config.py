from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hwcheck.connect import ssh_config
from hwcheck.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own; the system's configuration is a folder of our own too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (".ssh", "etc"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(ssh_config, "SYSTEM_FOLDER", str(tmp_path / "etc"))
    monkeypatch.setattr(ssh_config, "SYSTEM_FILE", str(tmp_path / "etc" / "ssh_config"))
    return tmp_path


def write(home: Path, **files: str) -> None:
    for name, text in files.items():
        path = home / ".ssh" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def port_of(host: str, path: Path | None = None) -> str:
    return str(ssh_config.load(path).base_ssh_config.lookup(host).get("port", "none"))


def test_paramiko_by_itself_ignores_include(home: Path) -> None:
    """The control: when this fails, our own expansion is needed no more."""
    write(home, config="Include more\n", more="Port 7\n")
    plain = ssh_config.paramiko.SSHConfig.from_path(str(home / ".ssh" / "config"))
    assert "port" not in plain.lookup("n1")


@pytest.mark.parametrize(
    "include",
    [
        "more",
        "./mor*",
        "~/.ssh/more",
        '"more"',
        "=more",
        "nosuch more # why",
        "n*such\nInclude more",
    ],
)
def test_ways_to_write_it(home: Path, include: str) -> None:
    write(home, config=f"Include {include}\n", more="Port 7\n")
    assert port_of("n1") == "7"


def test_files_of_the_system_are_beside_the_systems(home: Path) -> None:
    (home / "etc" / "ssh_config").write_text("include more.d/*.conf\nHost *\n Port 9\n")
    (home / "etc" / "more.d").mkdir()
    (home / "etc" / "more.d" / "20.conf").write_text("Host n1\n Port 8\n")
    (home / "etc" / "more.d" / "10.conf").write_text("Host n1\n Port 7\n")
    assert (port_of("n1"), port_of("n2")) == ("7", "9")
    write(home, config="Host n1\n Port 6\n")
    assert port_of("n1") == "6", "the user's file comes first"


# What is looked up, and the files: each is what a site may write, and ssh -G is asked as well.
BLOCKS = {
    "a setting after an included block is outside it": (
        "Include more\nPort 9\n",
        "Host n1\n Port 7\n",
    ),
    "a block goes on after its include": (
        "Host n1 n3\n Include more\n Port 7\nHost *\n Port 9\n",
        "User ann\n",
    ),
    "an include in a block is for that block": (
        "Host n1 !n3\n Include more\nHost *\n Port 9\n",
        "Port 7\n",
    ),
    "a block in a block is both": (
        "Host n?\n Include more\nHost *\n Port 9\n",
        "Host n1 m1\n Port 7\nHost *\n User ann\n",
    ),
    "a block in a match is both": (
        "Match originalhost n1,n3 user root\n Include more\nMatch all\n Port 9\n",
        "Match all\n Port 7\n",
    ),
    "what Fedora and its like bring": (
        "Include more\nHost n1\n Port 7\n",
        "Match final all\n Port 9\n",
    ),
    "a match in the user's own file": (
        "Match FINAL all\n Port 9\nMatch originalhost n1 ALL\n Port 7\nMatch user all\n Port 8\n",
        "",
    ),
    "a match that does not hold": (
        "Match user nobody-here\n Include more\nHost *\n Port 9\n",
        "Host *\n Port 7\n",
    ),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks_as_ssh_reads_them(home: Path, case: str) -> None:
    config, more = BLOCKS[case]
    write(home, config=config.replace("more", str(home / ".ssh" / "more")), more=more)
    path = home / ".ssh" / "config"
    for host in ("n1", "n2", "n3", "m1"):
        command = ["ssh", "-G", "-F", str(path), host]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        (expected,) = [row.split()[1] for row in done.stdout.splitlines() if row[:5] == "port "]
        assert port_of(host, path).replace("none", "22") == expected, host


def test_a_chain_of_16_is_followed_and_a_loop_is_refused(home: Path) -> None:
    chain = {f"f{n}": f"Include f{n + 1}\n" for n in range(1, 16)}
    write(home, config="Include f1\n", **chain, f16="Port 7\n")
    assert port_of("n1") == "7"
    write(home, f16="Include f1\n")
    with pytest.raises(UsageError, match="f1: Include goes more than 16 files deep"):
        ssh_config.load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Include %d/more\n", "config:1: Include %d/more: names tokens or variables"),
        ("\nInclude ${HOME}/more\n", "config:2: Include "),
        ('Include "more\n', "config:1: No closing quotation"),
        ("nonsense\n", "config:1: no setting, which has a value: nonsense"),
        ("# why\n\n  Port  \n", "config:3: no setting, which has a value: Port"),
        ("Include more\n", "more:2: no setting, which has a value: IdentityFile"),
        ("Match tagged gpu\n Port 7\n", "config:1: Match tagged is not supported; name a file wi"),
        ("\nMatch !localnetwork 10.0.0.0/8\n", "config:2: Match !localnetwork is not supported"),
        ("Match host\n", "config:1: Match host: what it is held against is missing"),
        ("Include match\n", "match:1: Match user: what it is held against is missing"),
    ],
)
def test_what_cannot_be_honored_is_one_line(home: Path, text: str, message: str) -> None:
    write(home, config=text, more="Host *\n IdentityFile\n", match="Match host n1 user\n")
    with pytest.raises(UsageError, match=r"ssh configuration: ") as caught:
        ssh_config.load()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CanonicalDomains invalid\nCanonicalizeFallbackLocal no\n",
            "n1 is in none of its CanonicalDomains, and CanonicalizeFallbackLocal is not yes",
        ),
        ("", "canonicaldomains is not set"),
        ("CanonicalizeMaxDots some\n", "invalid literal for int"),
    ],
)
def test_a_host_that_the_configuration_leads_nowhere(home: Path, text: str, message: str) -> None:
    write(home, config=f"CanonicalizeHostname yes\n{text}")
    config = ssh_config.load().base_ssh_config
    with pytest.raises(UsageError, match=f"^ssh configuration: {message}"):
        config.lookup("n1")


def test_a_file_that_cannot_be_read(home: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot read {home}/none: No such file"):
        ssh_config.load(home / "none")
    assert port_of("n1") == "none", "files of the user and the system may be missing"


def test_fabrics_own_setting_of_the_path_is_honored(home: Path) -> None:
    write(home, other="Port 5\n", config="Port 6\n")
    (home / ".fabric.yaml").write_text(f"ssh_config_path: {home}/.ssh/other\n")
    assert port_of("n1") == "5"
    (home / ".fabric.yaml").write_text("load_ssh_configs: false\n")
    assert port_of("n1") == "none"


def test_an_answer_is_the_askers_own(home: Path) -> None:
    write(home, config="Host node1\n HostName 127.0.0.9\n")
    config = ssh_config.load().base_ssh_config
    first = config.lookup("node1")
    first["hostname"] = "changed"
    assert config.lookup("node1")["hostname"] == "127.0.0.9"
    assert config.lookup("node2")["hostname"] == "node2"
