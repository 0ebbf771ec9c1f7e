"""Ansible inventories in, hosts out; every refusal is one line."""

import errno
from pathlib import Path
from typing import Any

import pytest

from hwcheck.connect.ssh_arguments import ssh_arguments
from hwcheck.errors import UsageError
from hwcheck.inventory import inventory

CLUSTER = """
all:
  vars:
    ansible_user: admin
  children:
    h100:
      hosts:
        node[01:03]:
      vars:
        hwcheck_gpus: 8
    spare:
      hosts:
        spare1:
          ansible_host: 192.0.2.9
          ansible_port: 2222
          ansible_become: true
          ansible_become_user: ops
          ansible_ssh_private_key_file: ~/.ssh/cluster
          ansible_ssh_extra_args: -o Compression=yes
          ansible_ssh_common_args: -o ProxyJump=jump@login -o 'User ops'
          ansible_ssh_args: -C -o ProxyJump=first
          ansible_become_exe: /opt/bin/sudo
          ansible_become_flags: -H -E
          ansible_sftp_extra_args: -l 100
          ansible_scp_executable: /opt/bin/scp
          ansible_ssh_executable: /usr/bin/ssh
          ansible_ssh_private_key: ""
          ansible_host_key_checking: true
          ansible_python_interpreter: /opt/python/bin/python3
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yml"
    file.write_text(CLUSTER)
    return file


def refusal(source: object, limit: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        inventory.read(str(source), limit)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_ranges_groups_and_connection_variables(cluster: Path) -> None:
    hosts = inventory.read(str(cluster)).hosts
    assert [host.name for host in hosts] == ["node01", "node02", "node03", "spare1"]
    assert hosts[0] == inventory.Host("node01", "node01", user="admin", expect={"gpus": 8})
    spare = hosts[3]
    assert (spare.address, spare.port, spare.become, spare.become_user) == (
        "192.0.2.9",
        2222,
        True,
        "ops",
    )
    first, common = ("-C", "-o", "ProxyJump=first"), ("-o", "ProxyJump=jump@login")
    assert spare.ssh_args == (*first, *common, "-o", "User ops", "-o", "Compression=yes")
    assert ssh_arguments(spare).words[2:] == (
        "-oProxyJump=first",
        "-oProxyJump=jump@login",
        "-oUser=ops",
    )
    assert (spare.become_exe, spare.become_flags) == ("/opt/bin/sudo", ("-H", "-E"))
    assert spare.python == "/opt/python/bin/python3"
    assert spare.private_key_file == "~/.ssh/cluster"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("h100:!node03", ["node01", "node02"]), ("node0[1:2]", []), ("*1", ["node01", "spare1"])],
)
def test_limit_takes_ansible_patterns(cluster: Path, pattern: str, names: list[str]) -> None:
    if not names:
        assert "no host matches --limit" in refusal(cluster, pattern)
        return
    assert [host.name for host in inventory.read(str(cluster), pattern).hosts] == names


def test_a_part_of_a_pattern_that_matches_nothing_is_told(cluster: Path) -> None:
    read = inventory.read(str(cluster), "node01:nosuch")
    assert [host.name for host in read.hosts] == ["node01"]
    assert any("nosuch" in warning for warning in read.warnings)


def test_group_vars_and_host_vars_beside_the_file(cluster: Path) -> None:
    for folder, name, text in (
        ("group_vars", "spare.yml", "hwcheck_gpus: 4"),
        ("host_vars", "node02.yml", "ansible_host: 192.0.2.2"),
    ):
        (cluster.parent / folder).mkdir()
        (cluster.parent / folder / name).write_text(text)
    hosts = {host.name: host for host in inventory.read(str(cluster)).hosts}
    assert hosts["spare1"].expect == {"gpus": 4}
    assert hosts["node02"].address == "192.0.2.2"


def test_hosts_on_the_command_line() -> None:
    assert [host.name for host in inventory.read("node1,node2").hosts] == ["node1", "node2"]


def test_a_dynamic_inventory(tmp_path: Path) -> None:
    script = tmp_path / "dynamic.py"
    script.write_text(
        "#!/bin/sh\n"
        'echo \'{"gpu": {"hosts": ["d1"]}, "_meta": {"hostvars": {"d1": {"hwcheck_gpus": 2}}}}\'\n'
    )
    script.chmod(0o755)
    (host,) = inventory.read(str(script)).hosts
    assert (host.name, host.expect) == ("d1", {"gpus": 2})


def test_this_machine_is_the_default() -> None:
    (host,) = inventory.read("inventory/local.yml").hosts
    assert host.connection == "local"
    assert Path(host.python).is_file()


def test_a_missing_file() -> None:
    assert refusal("/nonexistent/cluster.yml").startswith(
        "no such inventory: /nonexistent/cluster.yml"
    )


def test_broken_yaml_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.yml"
    file.write_text("all:\n  hosts:\n    a: {b: 1\n    c: 2\n")
    assert refusal(file).startswith(f"{file}:4: not YAML: ")


def test_an_ini_inventory_is_told_what_its_own_parser_says(tmp_path: Path) -> None:
    file = tmp_path / "cluster"
    file.write_text("[]\nnode01\n")
    assert "Invalid section entry: '[]'" in refusal(file)


def test_a_range_is_told_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    file.write_text("all:\n  hosts:\n    node[01:a]:\n")
    assert "host range must specify equal-length" in refusal(file)


def test_broken_group_vars_name_their_file(cluster: Path) -> None:
    (cluster.parent / "group_vars").mkdir()
    broken = cluster.parent / "group_vars" / "h100.yml"
    broken.write_text("a: [1\nb: 2\n")
    assert f"{broken}:2" in refusal(cluster)


def test_only_variable_files_are_blamed(cluster: Path) -> None:
    folder = cluster.parent / "group_vars"
    folder.mkdir()
    for name in ("README.md", ".all.yml.swp", "all.yml~"):
        (folder / name).write_text("a: [1\n")
    (folder / "secret.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n: [\n")
    cluster.write_text("- a\n- b\n")
    said = refusal(cluster)
    assert str(cluster) in said
    assert "group_vars" not in said


def test_a_variable_file_that_cannot_be_read_is_named(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.parent / "group_vars").mkdir()
    closed = cluster.parent / "group_vars" / "all.yml"
    closed.write_text("a: 1\n")
    cluster.write_text("- a\n")
    opened = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(cluster) == f"{closed}: Permission denied"


def test_an_inventory_with_no_host(tmp_path: Path) -> None:
    file = tmp_path / "empty.yml"
    file.write_text("all:\n  children:\n    h100:\n")
    assert "the inventory names no host" in refusal(file)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("hwcheck_gpu: 8", "hwcheck_gpu: unknown variable; did you mean hwcheck_gpus?"),
        ("hwcheck_gpus: many", "hwcheck_gpus: 'many' is not a whole number"),
        ("hwcheck_gpus: -1", "hwcheck_gpus: -1 is not a count of 0 to 1024"),
        ("hwcheck_torch_python: python3", "'python3' is not an absolute path on the node"),
        ("hwcheck_nccl_tests_dir: build", "'build' is not an absolute path on the node"),
        ("hwcheck_interface: eth0 eth1", "'eth0 eth1' is not a network interface such as eth0"),
        ("hwcheck_interface: averyveryverylongname", "is not a network interface such as eth0"),
        ("ansible_connection: docker", "ansible_connection: 'docker' is not ssh or local"),
        ("hwcheck_gpus: true", "hwcheck_gpus: 'True' is not a whole number"),
        ("hwcheck_gpus: 8.0", "hwcheck_gpus: '8.0' is not a whole number"),
        ("hwcheck_gpus: '1_0'", "hwcheck_gpus: '1_0' is not a whole number"),
        ("hwcheck_driver_version: 570.10", "hwcheck_driver_version: 570.1 was read as a number"),
        ("ansible_port: ssh", "ansible_port: 'ssh' is not a whole number"),
        ("ansible_port: 0", "ansible_port: 0 is not a port from 1 to 65535"),
        ("ansible_port: 65536", "ansible_port: 65536 is not a port from 1 to 65535"),
        ('ansible_ssh_args: "-o \'x"', "ansible_ssh_args: No closing quotation"),
        ("ansible_ssh_executable: /opt/tsh", "ansible_ssh_executable: '/opt/tsh' is not run"),
        ("ansible_ssh_private_key: xyzzy", "name a file in ansible_ssh_private_key_file"),
        ("ansible_ssh_pkcs11_provider: /p.so", "ansible_ssh_pkcs11_provider: not supported; add"),
        ("ansible_host_key_checking: no", "ansible_host_key_checking: host keys are always"),
        ("ansible_become: perhaps", "ansible_become: 'perhaps' is not true or false"),
        ('ansible_ssh_common_args: "-o \'x"', "ansible_ssh_common_args: No closing quotation"),
        ('ansible_host: "{{ nosuch }}"', "ansible_host: cannot be templated here: 'nosuch' is"),
        ('ansible_host: "{{ ansible_host }}"', "ansible_host: refers to itself"),
    ],
)
def test_a_bad_variable_names_host_and_key(tmp_path: Path, variable: str, text: str) -> None:
    file = tmp_path / "bad.yml"
    file.write_text(f"all:\n  hosts:\n    node01:\n      {variable}\n")
    said = refusal(file)
    assert "xyzzy" not in said, "a key is never printed"
    assert said.startswith(f"{file}: node01: ")
    assert text in said


@pytest.mark.parametrize("name", ["../../etc/x", "a b", ".hidden", "a/b"])
def test_a_name_that_could_leave_the_run_folder(tmp_path: Path, name: str) -> None:
    file = tmp_path / "bad.yml"
    file.write_text(f"all:\n  hosts:\n    '{name}':\n")
    assert "not a host name" in refusal(file)


def test_two_hosts_cannot_be_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "twins.yml"
    file.write_text("all:\n  vars: {ansible_connection: local}\n  hosts:\n    one:\n    two:\n")
    assert "two: one is this machine too; remove one" in refusal(file)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ssh", "ssh"), ("ansible.builtin.paramiko_ssh", "ssh"), ("ansible.builtin.local", "local")],
)
def test_names_of_connections(tmp_path: Path, name: str, kind: str) -> None:
    file = tmp_path / "one.yml"
    file.write_text(f"all:\n  hosts:\n    one: {{ansible_connection: {name}}}\n")
    (host,) = inventory.read(str(file)).hosts
    assert host.connection == kind


def test_a_pattern_that_looks_like_an_option(cluster: Path) -> None:
    assert "no host matches --limit -x; " in refusal(cluster, "-x")


@pytest.mark.parametrize("source", ["", " "])
def test_no_inventory_is_not_the_working_folder(source: str) -> None:
    assert refusal(source).startswith("--hosts is empty; name an Ansible inventory file")


def test_no_secret_in_the_printed_host(tmp_path: Path) -> None:
    file = tmp_path / "secret.yml"
    file.write_text("all:\n  hosts:\n    a: {ansible_become_password: hunter2}\n")
    (host,) = inventory.read(str(file)).hosts
    assert host.become_password == "hunter2"
    assert "hunter2" not in repr(host)


def test_names_and_addresses_that_no_file_or_dns_takes(tmp_path: Path) -> None:
    file = tmp_path / "long.yml"
    file.write_text(f"all:\n  hosts:\n    {'n' * 201}:\n")
    assert "a host name of 201 characters; 200 fit into a file name" in refusal(file)
    file.write_text(f"all:\n  hosts:\n    a: {{ansible_host: {'n' * 256}}}\n")
    assert "a: ansible_host: an address of 256 characters; at most 255" in refusal(file)


def test_yaml_that_is_nested_too_deeply(tmp_path: Path) -> None:
    file = tmp_path / "deep.yml"
    file.write_text("[" * 5000)
    assert refusal(file) == f"{file}: not an inventory: its YAML is nested too deeply"


def test_a_long_list_of_hosts_is_read_and_named_shortly() -> None:
    hosts = [f"node{number:04}" for number in range(1000)]
    assert len(inventory.read(",".join(hosts)).hosts) == 1000
    assert len(refusal(",".join(hosts), "nosuch")) < 1000


def test_a_path_that_no_file_system_takes() -> None:
    assert "no such inventory" in refusal("x" * 5000)


@pytest.mark.parametrize("limit", ["", "[", "!"])
def test_a_limit_that_names_no_host_is_refused(cluster: Path, limit: str) -> None:
    assert refusal(cluster, limit).startswith("--limit ")


MESSY = """
all:
  children:
    gpu:
      hosts:
        node[01:04]:
          hwcheck_gpu: 8
          hwcheck_power_limit_w: much
        node05: {ansible_port: zero}
    others:
      hosts:
        web[1:2]: {ansible_connection: community.docker.docker}
        win: {ansible_connection: winrm}
        switch: {ansible_connection: ansible.netcommon.network_cli}
"""


def test_all_mistakes_are_told_at_once_and_equal_ones_once(tmp_path: Path) -> None:
    file = tmp_path / "messy.yml"
    file.write_text(MESSY)
    with pytest.raises(UsageError) as caught:
        inventory.read(str(file))
    lines = str(caught.value).replace(f"{file}: ", "").splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("node[01-04]", "node[01-04]", "node05", "web[1-2]", "win", "switch", "to leave them out")
    ]
    assert lines[0] == "node[01-04]: hwcheck_gpu: unknown variable; did you mean hwcheck_gpus?"
    assert lines[1].startswith("node[01-04]: hwcheck_power_limit_w: 'much' is not")
    hint = "to leave them out: --limit 'all:!"
    assert lines[-1].startswith(hint)
    file.write_text(
        MESSY.replace("hwcheck_gpu: 8", "").replace("much", "700").replace("zero", "22")
    )
    limit = lines[-1].removeprefix("to leave them out: --limit ").strip("'")
    names = [host.name for host in inventory.read(str(file), limit).hosts]
    assert names == ["node01", "node02", "node03", "node04", "node05"]


def test_one_host_that_is_not_reached_by_ssh_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts.ini"
    file.write_text("n1\nwin ansible_connection=winrm\n")
    assert refusal(file).endswith("; to leave them out: --limit 'all:!win'")
