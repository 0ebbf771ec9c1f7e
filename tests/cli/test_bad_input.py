"""Bad input: one clear line on stderr, exit code 2, nothing created, no traceback."""

import getpass
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fabric import Config
from fabric.main import Fab

from hwcheck.cli.command_line import Executor, commands
from hwcheck.cli.program import run
from hwcheck.cli.root import call

BIN = Path(sys.executable).parent
CHECKOUT = Path(__file__).parents[2]
GOOD = "all:\n  hosts:\n    node01: {ansible_connection: local}\n"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.yml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)


def refuse(
    capfd: pytest.CaptureFixture[str], *argv: str, start: Callable[[list[str]], object] = run
) -> str:
    before = sorted(Path().rglob("*"))
    with pytest.raises(SystemExit) as ended:
        start([*argv])
    out, err = capfd.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert sorted(Path().rglob("*")) == before
    return err.strip()


def refuse_as_fab(capfd: pytest.CaptureFixture[str], *argv: str) -> str:
    """As `fab` does, with the commands of hwcheck and its executor."""
    fab = Fab(name="fab", namespace=commands(), executor_class=Executor, config_class=Config)
    return refuse(capfd, *argv, start=lambda words: fab.run(["fab", *words]))


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--hosts", "nosuch.yml"], "hwcheck: no such inventory: nosuch.yml; name an Ansible"),
        (["--hosts", "broken.yml"], "hwcheck: broken.yml:4: not YAML: "),
        (["--hosts", "::1,"], "::1,: '::1': not a host name; name the host, and the address as an"),
        (["--hosts", "ann@n1,"], "'ann@n1'; name the user as ansible_user in an inventory file"),
        (["--hosts", "good.yml", "--limit", "other"], "no host matches --limit other"),
        (["--hosts", "unknown.yml"], "node01: hwcheck_gpu: unknown variable; did you mean"),
        (
            ["--hosts", "waiver.yml"],
            "waiver.yml: node01: hwcheck_waivers: pcie_lnk: no such check; did you mean pcie_link?",
        ),
        (["--hosts", "endless.yml"], "node01: hwcheck_waivers[1]: until is missing: name the last"),
        (["--hosts", "twins.yml"], "b: a is 192.0.2.1:22 too; remove one or"),
        (["--hosts", "good.yml", "--only", "gpucount"], "no such check; did you mean gpu_count?"),
        (["--hosts", "good.yml", "--skip", "gpucount"], "no such check; did you mean gpu_count?"),
        (["--hosts", "good.yml", "--only", ","], "--only ',' names no check; leave --only out"),
        (["--hosts", "good.yml", "--skip", ""], "--skip '' names no check; leave --skip out"),
        (["--hosts", "good.yml", "--hosts", "b"], "--hosts is given twice: good.yml, b; give it"),
        (["--hosts", "good.yml", "-l", "a", "--limit", "b"], "--limit is given twice: a, b; give"),
        (
            ["--require-coverage", "--hosts", "a", "--require-coverage", "9"],
            "--require-coverage is given twice: without a value, 9; give it once",
        ),
        (["--hosts", "good.yml", "--profile", "fast"], "--profile fast: it is one of quick"),
        (["--hosts", "good.yml", "--engine", "mpi"], "--engine mpi: it is one of torch, nccl-t"),
        (
            ["--hosts", "good.yml", "--engine", "nccl-tests"],
            "--engine nccl-tests: node01 has no hwcheck_nccl_tests_dir; name the",
        ),
        (
            ["--hosts", "good.yml", "--require-coverage", "101"],
            "--require-coverage 101: it takes a percentage above 0 and up to 100",
        ),
        (
            ["--hosts", "good.yml", "--require-coverage=some"],
            "--require-coverage some: it takes a percentage",
        ),
        (
            ["--hosts", "good.yml", "--prove", "--scope", "pairs"],
            "--prove: it is about single nodes; add node to --scope",
        ),
        (
            ["--hosts", "good.yml", "--prove", "--skip", "gate_proof"],
            "--skip gate_proof: another flag asks for it; give one of them",
        ),
        (["--hosts", "good.yml", "--forks", "0"], "--forks 0: it takes a whole number from 1"),
        (["--hosts", "good.yml", "--timeout", "soon"], "--timeout soon: it takes seconds, or 45m"),
        (
            ["--hosts", "good.yml", "--duration", "long"],
            "--duration long: it takes seconds, or 45",
        ),
        (["--hosts", "good.yml", "--duration", "0.5"], "--duration 0.5: it takes seconds, or"),
        (["--hosts", "good.yml", "--duration", "8h"], "--duration: it goes with --profile burn_"),
        (
            ["--hosts", "good.yml", "--legs", "p2poff"],
            "--legs p2poff: no such leg; did you mean p2p",
        ),
        (["--hosts", "good.yml", "--collectives", "x"], "--collectives x: no such collective; "),
        (
            ["--hosts", "good.yml", "--minbytes", "4"],
            "--minbytes 4: it takes bytes, or 64K, 8M",
        ),
        (
            ["--hosts", "good.yml", "--minbytes", "8M", "--maxbytes", "4M"],
            "--minbytes 8 MiB: it is more than --maxbytes 4 MiB",
        ),
        (
            ["--hosts", "good.yml", "-b", "8M", "-e", "4M"],
            "8M: -b is --become, as in Ansible; the smallest size is --minbytes 8M",
        ),
        (
            ["--hosts", "good.yml", "-e", "4M"],
            "-e 4M: it takes key=value, YAML or @FILE, as in Ansible; the largest size is --maxby",
        ),
        (["--hosts", "good.yml", "-n", "0"], "--iters 0: it takes a whole number from 1"),
        (["--hosts", "good.yml", "-w", "-1"], "--warmup-iters -1: it takes a whole number from 0"),
        (["--hosts", "good.yml", "-d", "half"], "--datatype half: it is one of float, bfloat16"),
        (["--hosts", "good.yml", "--stepfactor", "1"], "--stepfactor 1: it takes a whole number"),
        (["--hosts", "good.yml", "--limit", ""], "--limit '' names no host; leave --limit out"),
        (["--hosts", "good.yml", "--out", ""], "--out is empty; name a folder, or leave --out"),
        (["--hosts", "good.yml", "--out", "good.yml"], "cannot create the run folder: good.yml"),
        (["--hosts", "key.yml"], "node01: cannot read private key /nonexistent/id: No such file"),
        (["--hosts", "args.yml"], "node01: ssh option StrictHostKeyChecking=no: it would accept a"),
        (["--hosts", "become.yml"], "node01: ansible_become_method: su is not supported; use sudo"),
    ],
)
def test_validate(capfd: pytest.CaptureFixture[str], argv: list[str], text: str) -> None:
    for name, content in {
        "broken.yml": "all:\n  hosts:\n    a: {b: 1\n    c: 2\n",
        "waiver.yml": "all:\n  hosts:\n    node01:\n      hwcheck_waivers:\n"
        "        - {check: pcie_lnk, until: 2027-01-31, reason: RMA 4711}\n",
        "endless.yml": "all:\n  hosts:\n    node01:\n      hwcheck_waivers:\n"
        "        - {check: pcie_link, reason: RMA 4711}\n",
        "unknown.yml": "all:\n  hosts:\n    node01: {hwcheck_gpu: 8}\n",
        "twins.yml": "all:\n  vars: {ansible_host: 192.0.2.1}\n  hosts:\n    a:\n    b:\n",
        "key.yml": "all:\n  hosts:\n    node01: {ansible_ssh_private_key_file: /nonexistent/id}\n",
        "args.yml": "all:\n  hosts:\n    node01:\n"
        "      ansible_ssh_common_args: -o StrictHostKeyChecking=no\n",
        "become.yml": "all:\n  hosts:\n    node01:\n"
        "      ansible_become: true\n      ansible_become_method: su\n",
    }.items():
        Path(name).write_text(content)
    assert text in refuse(capfd, "validate", *argv)


MISTAKES = """
all:
  hosts:
    node01:
      hwcheck_gpu: 8
      hwcheck_power_limit_w: much
      hwcheck_psu_derate: 0.9
      hwcheck_limits:
        power_cap.power_limt_percent: {warn: 90, source: OPS-1}
        pcie_link.width_lost: {warn: 90}
      hwcheck_waivers:
        - {check: pcie_lnk, until: 2027-01-31, reason: RMA 4711}
        - {check: pcie_link, until: 31.1.2027, reason: RMA 4711}
      hwcheck_parts:
        - {part: gpu, number: 4.5}
        - {count: 8}
    node02:
      ansible_connection: local
    node03:
      ansible_connection: local
      hwcheck_gpu: 8
    node04:
      ansible_host: 192.0.2.4
      ansible_ssh_common_args: -F x
      hwcheck_gpu: 8
    node05:
      ansible_host: 192.0.2.5
      ansible_become: true
      ansible_become_method: su
      ansible_ssh_private_key_file: /nonexistent/id
    node[06:08]:
      ansible_host: 192.0.2.6
"""


def test_what_is_wrong_in_an_inventory_is_complained_of_at_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("messy.yml").write_text(MISTAKES)
    with pytest.raises(SystemExit) as ended:
        run(["validate", "--hosts", "messy.yml"])
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    starts = (
        "node[01,03-04]: hwcheck_gpu: unknown variable; did you mean hwcheck_gpus?",
        "node01: hwcheck_power_limit_w: 'much' is not a power in W",
        "node01: hwcheck_parts[1]: number: 4.5 was read as a number",
        "node01: hwcheck_parts[2]: part is missing",
        "node01: hwcheck_psu_derate: means nothing without hwcheck_psu_watts",
        "node01: hwcheck_limits: pcie_link.width_lost: source is missing",
        "node01: hwcheck_limits: power_cap.power_limt_percent: no such metric of a check; did you",
        "node01: hwcheck_waivers: pcie_lnk: no such check; did you mean pcie_link?",
        "node01: hwcheck_waivers[2]: until: '31.1.2027' is not a day",
        "node03: node02 is this machine too",
        "node05: ansible_become_method: su is not supported; use sudo",
        "node04: ssh option -F: not supported",
        "node05: cannot read private key /nonexistent/id",
        "node[07-08]: node06 is 192.0.2.6:22 too; remove one or change its ansible_host",
    )
    for line, start in zip(err.splitlines(), starts, strict=True):
        assert line.removeprefix("hwcheck: ").removeprefix("messy.yml: ").startswith(start)


@pytest.mark.parametrize(
    "command", [["state"], ["accept", "run"], ["train", "bench"], ["sweep", "run"], ["rollout"]]
)
def test_so_it_is_by_other_commands_that_reach_hosts(
    capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    Path("messy.yml").write_text(MISTAKES)
    with pytest.raises(SystemExit) as ended:
        run([*command, "--hosts", "messy.yml"])
    err = capfd.readouterr().err
    assert ended.value.code == 2
    assert "messy.yml: node[01,03-04]: hwcheck_gpu: unknown variable" in err
    assert "node[07-08]: node06 is 192.0.2.6:22 too" in err


def test_what_keeps_slurm_from_being_asked_hides_no_mistake_of_an_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("messy.yml").write_text(MISTAKES)
    monkeypatch.setenv("PATH", str(tmp_path / "no programs"))
    words = ["train", "bench", "--launcher", "slurm", "--hosts"]
    for inventory, expected in (("messy.yml", "hwcheck_gpu: unknown"), ("n1,n2", "srun: not fou")):
        with pytest.raises(SystemExit) as ended:
            run([*words, inventory])
        assert (ended.value.code, expected in capfd.readouterr().err) == (2, True)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["validate", "--xyz"], "hwcheck: --xyz: no such option of validate; see --help"),
        (["validate", "--hots=a"], "--hots: no such option of validate; did you mean --hosts?"),
        (["nosuch"], "hwcheck: nosuch: no such command; see --help"),
        (
            ["checks", "pcie_lnk"],
            "hwcheck: checks pcie_lnk: no such check; did you mean pcie_link?",
        ),
        (["valdate"], "hwcheck: valdate: no such command; did you mean validate?"),
        (["-t", "5", "validate"], "-t: it stands before a command, and options follow it"),
        (["report"], "report: run is missing; report --help says what it takes"),
        (
            ["validate", "--only", "driver", "--hosts"],
            "hwcheck: --hosts: its value is missing; say --hosts INV",
        ),
        (["--help", "reprot"], "hwcheck: reprot: no such command; did you mean report?"),
        (["validate", "--", "ls"], "hwcheck: ls: no such command; see --help"),
        (["validate", "--force=yes"], "hwcheck: --force: it takes no value; leave the value out"),
        (
            ["validate", "--hosts", "--limit", "a"],
            "hwcheck: --hosts: its value is missing; say --hosts INVENTORY, or see --help",
        ),
        (
            ["validate", "--profile", "standart"],
            "quick, standard, burn_in; did you mean standard?",
        ),
        (["validate", "--scope", "pair"], "--scope pair: no such scope; did you mean pairs?"),
        (
            ["validate", "--collectives", "allreduce"],
            "--collectives allreduce: no such collective; did you mean all_reduce?",
        ),
        (
            ["train", "bench", "--strategies", "zero2,dpp"],
            "--strategies dpp: no such strategy; did you mean dp?",
        ),
        (["train", "bench", "--ranks", "2,0"], "--ranks 0: it takes a whole number from 1"),
        (["sweep"], "hwcheck: sweep: action is missing; sweep --help says what it takes"),
        (["sweep", "--hosts", "a"], "hwcheck: sweep: action is missing; sweep --help says"),
        (["sweep", "relase"], "it is one of run, release, status, install, remove; did you mean r"),
        (["site", "test"], "hwcheck: site test: name the site's folder with --site"),
        (["--print-completion-script", "zhs"], "it is one of bash, zsh, fish; did you mean zsh?"),
        (["report", "runs/x", "checks", "--hots"], "hwcheck: --hots: no such option of checks; d"),
    ],
)
def test_a_command_line_that_cannot_be_parsed(
    capfd: pytest.CaptureFixture[str], argv: list[str], text: str
) -> None:
    assert text in refuse(capfd, *argv)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (
            ["-S", "ssh.conf", "validate"],
            "hwcheck: -S ssh.conf: not used; name it as ssh_config_path",
        ),
        (["-f", "good.yml", "validate"], "for an inventory: validate --hosts good.yml"),
        (["-i", "good.yml", "validate"], "-i good.yml: before the task that is Fabric's option"),
        (["--dry", "validate", "--hosts", "n1,"], "hwcheck: --dry: a visit cannot be tried"),
        (["validate", "--", "ls"], "hwcheck: -- ls: hwcheck runs no command of yours"),
        (["--prompt-for-login-password", "validate"], "hwcheck: --prompt-for-login-password: not"),
        (["--prompt-for-passphrase", "checks"], "not used; ssh-add the key to an ssh agent"),
        (["checks", "--prompt-for-sudo-password"], "not used; set ansible_become_password, which"),
    ],
)
def test_options_that_fab_has_and_that_have_no_effect(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda prompt: "secret")
    Path("ssh.conf").touch()
    assert text in refuse_as_fab(capfd, *argv)


@pytest.mark.parametrize("hosts", ["good.yml", "node1,node2"])
@pytest.mark.parametrize("before", [True, False])
def test_the_core_flag_for_hosts(
    capfd: pytest.CaptureFixture[str], hosts: str, before: bool
) -> None:
    argv = ["-H", hosts, "validate"] if before else ["validate", "-H", hosts]
    said = refuse_as_fab(capfd, *argv)
    assert said.startswith("hwcheck: -H is Fabric's own and would run validate once per host; say")
    assert "validate --hosts INVENTORY" in said


@pytest.mark.parametrize(
    "argv", [["-H", "a,b", "report", "runs/x"], ["-H", "a,b", "explain", "a.log"]]
)
def test_the_core_flag_for_hosts_before_a_task_that_has_none(
    capfd: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    said = refuse_as_fab(capfd, *argv)
    assert said == f"hwcheck: -H is Fabric's own and {argv[2]} visits no host; leave -H a out"


@pytest.mark.parametrize("content", [None, "{", '{"format": 1}'])
def test_report_of_a_damaged_folder(capfd: pytest.CaptureFixture[str], content: str | None) -> None:
    Path("run").mkdir()
    if content is not None:
        Path("run", "run.json").write_text(content)
    assert "run/run.json" in refuse(capfd, "report", "run")


def test_a_configuration_file_that_cannot_be_read(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    Path(".fabric.yaml").mkdir()
    said = refuse(capfd, "validate", "--hosts", "node01,", "--only", "driver")
    assert said.endswith(".fabric.yaml: Is a directory")
    assert call(["checks"]) == 0
    assert capfd.readouterr().out, "what needs no SSH does not read it"


def test_a_configuration_file_that_is_no_yaml(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    Path(".fabric.yaml").write_text("{\n")
    said = refuse(capfd, "validate", "--hosts", "node01,", "--only", "driver")
    assert said.startswith("hwcheck: Fabric's configuration: ")
    assert '.fabric.yaml", line 2, column 1' in said


def test_options_of_fabric_that_are_not_used_are_said(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    Path(".fabric.yaml").write_text("connect_kwargs: {key_filename: /mine}\n")
    argv = ["validate", "--hosts", "node01,", "--list-hosts"]
    assert call([*argv]) == 0
    said = capfd.readouterr().err
    done = fab(Path.cwd(), *argv)
    for text in (said, done.stderr):
        assert text.count("Fabric's own connection options (-t, connect_kwargs) are not used") == 1


def test_a_broken_ssh_configuration(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "config").write_text("Host *\n Nonsense yes\n")
    # ssh itself does not go by HOME, but Fabric's file does.
    (home / ".fabric.yaml").write_text(f"ssh_config_path: {home}/config\n")
    monkeypatch.setenv("HOME", str(home))
    said = refuse(capfd, "validate", "--hosts", "node01,", "--only", "driver")
    assert said.startswith(f"hwcheck: node01: ssh configuration: {home}/config: line 2: Bad con")
    done = fab(Path.cwd(), "validate", "--hosts", "node01,", "--only", "driver")
    assert (done.returncode, done.stderr.strip()) == (2, said)
    assert call(["checks"]) == 0
    assert capfd.readouterr().out, "what needs no SSH does not read it"


def test_no_ssh_is_installed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python3", "python"):
        (tmp_path / "bin" / name).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{BIN}:{tmp_path}/bin")
    said = refuse(capfd, "validate", "--hosts", "node01,", "--only", "driver")
    assert said.startswith("hwcheck: node01: cannot run ssh, which reads the ssh configuration: ")
    assert "install OpenSSH's client" in said


def test_fab_says_the_same(tmp_path: Path) -> None:
    done = fab(tmp_path, "validate", "--hosts", "nosuch.yml")
    assert done.returncode == 2
    assert done.stderr.startswith("hwcheck: no such inventory: nosuch.yml")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["-f", "good.yml", "validate"], "for an inventory: validate --hosts good.yml"),
        (["validate", "-H", "a,b"], "say validate --hosts INVENTORY"),
        (["validate", "--hosts", "a.yml", "--hosts", "b.yml"], "--hosts is given twice: a.yml"),
    ],
)
def test_fab_refuses_the_same(tmp_path: Path, argv: list[str], text: str) -> None:
    done = fab(tmp_path, *argv)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("runs").exists()


def test_what_fab_itself_cannot_parse_is_its_own_exit_code(tmp_path: Path) -> None:
    done = fab(tmp_path, "validate", "--hots", "x")
    assert (done.returncode, done.stderr) == (1, "No idea what '--hots' is!\n")


def fab(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    for name in ("fabfile.py", "fabric.yaml"):
        shutil.copy(CHECKOUT / name, folder)
    return subprocess.run(
        [BIN / "fab", *argv], capture_output=True, text=True, cwd=folder, check=False
    )
