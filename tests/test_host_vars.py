"""Templates and vaults in host variables."""

import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.host_vars import VARIABLES, HostVars, expectations


def variables(**raw: object) -> HostVars:
    return HostVars("node01.example", raw, "cluster.yml")


def test_templates_see_the_host_and_its_variables() -> None:
    found = variables(
        ansible_host="{{ prefix }}-{{ inventory_hostname_short }}", prefix="{{ site }}", site="ams"
    )
    assert found.text("ansible_host") == "ams-node01"


def test_text_stays_text() -> None:
    assert variables(p="{{ pw }}", pw="007").text("p") == "007"
    assert variables(p="1e5").text("p") == "1e5"


def test_templates_run_in_a_sandbox() -> None:
    with pytest.raises(UsageError, match="cannot be templated here"):
        variables(x="{{ ''.__class__.__mro__ }}").text("x")


def test_booleans_as_ansible_reads_them() -> None:
    assert variables(b="yes").flag("b")
    assert variables(b=True).flag("b")
    assert not variables(b=False).flag("b")
    assert not variables().flag("b")


def test_the_first_name_that_is_set_wins() -> None:
    assert variables(old=1, new=2).number("new", "old") == 2
    assert variables(old=1).number("new", "old") == 1


ANY_WORD = {"driver_version", "gpu_model", "kernel", "hypervisor"}


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_says_what_it_means_and_refuses_nonsense(name: str) -> None:
    assert VARIABLES[name].meaning
    if name.removeprefix("hwcheck_") not in ANY_WORD:
        with pytest.raises(UsageError, match=name):
            expectations(variables(**{name: "nonsense"}))


WORDS = sorted(ANY_WORD | {"cuda_driver_version", "vbios"})


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize(
    ("value", "kind"), [(570.10, "number"), (True, "boolean"), ("{{ v }}", "number")]
)
def test_a_word_that_yaml_took_for_a_number_is_refused(name: str, value: object, kind: str) -> None:
    declared = variables(**{f"hwcheck_{name}": value, "v": 570.10})
    with pytest.raises(UsageError, match=f"was read as a {kind}; write it in quotes") as caught:
        expectations(declared)
    assert f"node01.example: hwcheck_{name}: " in str(caught.value)


def test_a_template_may_lead_to_a_word_in_quotes() -> None:
    declared = variables(hwcheck_driver_version="{{ v }}.{{ n }}", v="570.10", n=4)
    assert expectations(declared) == {"driver_version": "570.10.4"}
    declared = variables(hwcheck_power_limit_w="{{ w }}", w=312.5)
    assert expectations(declared) == {"power_limit_w": 312.5}, "a quantity may be a number"


def test_versions_are_read_as_the_node_writes_them() -> None:
    declared = {"hwcheck_cuda_driver_version": "12.8", "hwcheck_vbios": "94.02.5c.00.04"}
    read = expectations(variables(**declared))
    assert read == {"cuda_driver_version": "12.8", "vbios": "94.02.5C.00.04"}


def test_supplies_cables_and_software_are_read() -> None:
    declared = {
        "hwcheck_psu_watts": 13_200,
        "hwcheck_psu_derate": 0.8,
        "hwcheck_host_power_w": "2500",
        "hwcheck_gpu_power_connectors": "8-pin, {{ second }}",
        "hwcheck_torch_version": "2.8.0+cu128",
        "hwcheck_nccl_version": "2.27.3",
    }
    read = expectations(variables(**declared, second="8-pin"))
    assert read == {
        "psu_watts": 13_200.0,
        "psu_derate": 0.8,
        "host_power_w": 2500.0,
        "gpu_power_connectors": "8-pin, 8-pin",
        "torch_version": "2.8.0+cu128",
        "nccl_version": "2.27.3",
    }
    for name in ("hwcheck_psu_derate", "hwcheck_nccl_version"):
        with pytest.raises(UsageError, match=name):
            expectations(variables(**{name: 1.5}))


def test_the_page_on_the_inventory_lists_every_variable() -> None:
    page = (Path(__file__).parent.parent / "docs/inventory.md").read_text()
    assert [name for name in VARIABLES if f"| `{name}` |" not in page] == []


def test_a_vaulted_value_is_decrypted_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text("open sesame")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    command = [sys.executable, "-m", "ansible", "vault", "encrypt", "--output=-", "-"]
    secret = subprocess.run(command, input="s3cret", capture_output=True, text=True, check=True)
    found = variables(direct={"__ansible_vault": secret.stdout}, through="{{ direct }}")
    assert found.text("direct") == "s3cret"
    assert found.text("through") == "s3cret"


def test_a_vault_without_its_password_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    sealed = variables(x={"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n6135\n"})
    with pytest.raises(UsageError, match="set ANSIBLE_VAULT_PASSWORD_FILE"):
        sealed.text("x")
