from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import paramiko
import pytest

from hwcheck.connect.deadlines import VisitError
from hwcheck.connect.host_keys import HostKeyPolicy, KnownHosts
from tests.lab.lab import make_key


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, paramiko.PKey]:
    folder = tmp_path_factory.mktemp("keys")
    made = {name: paramiko.PKey.from_path(make_key(folder / name)) for name in ("one", "two")}
    return {**made, "ecdsa": paramiko.ECDSAKey.generate()}


def line(names: str, key: paramiko.PKey) -> str:
    return f"{names} {key.get_name()} {key.get_base64()}\n"


def judge(path: Path, name: str, key: paramiko.PKey, *, accept_new: bool = False) -> HostKeyPolicy:
    policy = HostKeyPolicy(KnownHosts((str(path),)), name, accept_new=accept_new)
    policy.missing_host_key(paramiko.SSHClient(), name, key)
    return policy


@pytest.mark.parametrize(
    "names",
    ["h1", "h0,h1", "h*", "h?,!h2", "*", "[h1]:22,h1", "H1,h1", "H1", "h0,H1"],
)
def test_a_key_in_the_file_is_taken(
    tmp_path: Path, keys: dict[str, paramiko.PKey], names: str
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(text := "# comment\n\nbroken\n" + line(names, keys["one"]))
    judge(path, "h1", keys["one"])
    assert path.read_text() == text
    with pytest.raises(VisitError):
        judge(path, "h1", keys["two"])


def test_a_hashed_name_is_found(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line("h1", keys["one"]))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert path.read_text().startswith("|1|")
    judge(path, "h1", keys["one"])
    with pytest.raises(VisitError, match="unknown"):
        judge(path, "h2", keys["one"])


@pytest.mark.parametrize("names", ["h2", "h*,!h1", "[h1]:22", "h1.example", "h"])
def test_an_unknown_host_is_refused(
    tmp_path: Path, keys: dict[str, paramiko.PKey], names: str
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line(names, keys["one"]))
    with pytest.raises(VisitError) as caught:
        judge(path, "h1", keys["one"])
    assert "run ssh-keyscan or use --accept-new-host-keys" in caught.value.reason.text
    assert caught.value.state == "unreachable"


@pytest.mark.parametrize("accept_new", [False, True])
@pytest.mark.parametrize(
    ("known", "offered", "message"),
    [
        ("one", "two", "2 has another ssh-ed25519 key"),
        ("ecdsa", "one", "2 has ecdsa-sha2-nistp256 key"),
    ],
)
def test_a_changed_key_is_always_refused(
    tmp_path: Path,
    keys: dict[str, paramiko.PKey],
    accept_new: bool,
    known: str,
    offered: str,
    message: str,
) -> None:
    path = tmp_path / "known_hosts"
    text = "# first\n" + line("h1", keys[known])
    path.write_text(text)
    with pytest.raises(VisitError, match=f"changed: .*known_hosts:{message} of h1"):
        judge(path, "h1", keys[offered], accept_new=accept_new)
    assert path.read_text() == text


def test_either_of_two_keys_is_taken(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(text := line("h1", keys["one"]) + line("h1", keys["two"]))
    judge(path, "h1", keys["one"])
    judge(path, "h1", keys["two"])
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["/no/such/file", "a\0b"])
def test_a_file_that_is_not_there_knows_no_host(name: str) -> None:
    assert HostKeyPolicy(KnownHosts((name,)), "n1", accept_new=False).preferred_types(()) == ()


def test_a_revoked_key_is_refused(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line("h1", keys["one"]) + "@revoked " + line("*", keys["one"]))
    with pytest.raises(VisitError, match=r"revoked by .*known_hosts:2"):
        judge(path, "h1", keys["one"], accept_new=True)


@pytest.mark.parametrize("names", ["h1", "[h1]:2222", "*", "hashed"])
def test_a_revoked_key_is_refused_at_each_port(
    tmp_path: Path, keys: dict[str, paramiko.PKey], names: str
) -> None:
    name = paramiko.HostKeys.hash_host("h1") if names == "hashed" else names
    path = tmp_path / "known_hosts"
    path.write_text(line("[h1]:2222", keys["one"]) + "@revoked " + line(name, keys["one"]))
    with pytest.raises(VisitError, match=r"revoked by .*known_hosts:2"):
        judge(path, "[h1]:2222", keys["one"])
    path.write_text(line("[h1]:2222", keys["one"]) + "@revoked " + line("[h1]:2", keys["one"]))
    judge(path, "[h1]:2222", keys["one"])


@pytest.mark.parametrize("accept_new", [False, True])
@pytest.mark.parametrize("name", ["h1.example", "[h1.example]:2222"])
def test_a_host_that_only_an_authority_vouches_for_is_refused(
    tmp_path: Path, keys: dict[str, paramiko.PKey], name: str, accept_new: bool
) -> None:
    path = tmp_path / "known_hosts"
    authority = "@cert-authority " + line("*.example", keys["one"])
    path.write_text(authority)
    for key in ("one", "two"):  # the authority's own key is no host's either
        with pytest.raises(
            VisitError, match=f"only vouched for by @cert-authority in {path}:1, .*"
        ):
            judge(path, name, keys[key], accept_new=accept_new)
    assert path.read_text() == authority, "a key that must have a certificate is not taken as new"
    path.write_text(authority + line(name, keys["two"]))
    judge(path, name, keys["two"])
    with pytest.raises(VisitError, match="changed: "):
        judge(path, name, keys["one"])


def test_an_authority_for_other_hosts_means_nothing_here(
    tmp_path: Path, keys: dict[str, paramiko.PKey]
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("@cert-authority " + line("*.example,!h1.example", keys["one"]))
    with pytest.raises(VisitError, match="unknown: no "):
        judge(path, "h1.example", keys["two"])


def test_the_global_files_are_read_after_the_users(
    tmp_path: Path, keys: dict[str, paramiko.PKey]
) -> None:
    user, system = tmp_path / "user", tmp_path / "system"
    system.write_text(line("h1", keys["one"]))
    known_hosts = KnownHosts((str(user),), (str(system),))
    policy = HostKeyPolicy(known_hosts, "h1", accept_new=True)
    policy.missing_host_key(paramiko.SSHClient(), "h1", keys["one"])
    with pytest.raises(VisitError, match=f"changed: {system}:1 has another"):
        policy.missing_host_key(paramiko.SSHClient(), "h1", keys["two"])
    assert not user.exists()


def test_a_new_key_is_appended_and_nothing_rewritten(
    tmp_path: Path, keys: dict[str, paramiko.PKey]
) -> None:
    path = tmp_path / "ssh" / "known_hosts"
    path.parent.mkdir()
    path.write_text("# mine, no newline at its end")
    before = path.stat().st_ino
    judge(path, "h1", keys["one"], accept_new=True)
    assert path.read_text() == "# mine, no newline at its end\n" + line("h1", keys["one"])
    assert path.stat().st_ino == before
    with pytest.raises(VisitError, match="changed"):
        judge(path, "h1", keys["two"], accept_new=True)


def test_a_new_file_is_private(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    path = tmp_path / "ssh" / "known_hosts"
    judge(path, "h1", keys["one"], accept_new=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_new_key_without_a_file_is_kept_for_this_run(keys: dict[str, paramiko.PKey]) -> None:
    known_hosts, client = KnownHosts(()), paramiko.SSHClient()
    policy = HostKeyPolicy(known_hosts, "h1", accept_new=True)
    policy.missing_host_key(client, "h1", keys["one"])
    with pytest.raises(VisitError, match="changed: this run has another"):
        HostKeyPolicy(known_hosts, "h1", accept_new=True).missing_host_key(
            client, "h1", keys["two"]
        )


def test_threads_append_whole_lines(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    path = tmp_path / "known_hosts"
    known_hosts = KnownHosts((str(path),))
    threads = [
        threading.Thread(target=known_hosts.append, args=(f"h{number}", keys["one"]))
        for number in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(line(f"h{number}", keys["one"]) for number in range(50))
    assert sorted(path.read_text().splitlines(keepends=True)) == expected
    assert known_hosts.lookup("h7")


def test_an_unwritable_file_is_said(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    with pytest.raises(VisitError, match="cannot be added to known_hosts"):
        judge(tmp_path, "h1", keys["one"], accept_new=True)


def test_a_server_is_asked_for_the_type_that_is_known(
    tmp_path: Path, keys: dict[str, paramiko.PKey]
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line("h1", keys["ecdsa"]))
    policy = HostKeyPolicy(KnownHosts((str(path),)), "h1", accept_new=False)
    order = policy.preferred_types(("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"))
    assert order == ("ecdsa-sha2-nistp256", "ssh-ed25519", "rsa-sha2-512")
