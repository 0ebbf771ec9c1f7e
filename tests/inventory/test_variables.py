"""Templates and vaults in host variables."""

import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.variables import Variables


def variables(**raw: object) -> Variables:
    return Variables("node01.example", raw, "cluster.yml")


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


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ gpus + 1 }}", "can only concatenate str"),
        ("{{ range(10 ** 9) | list }}", "Range too big"),
    ],
)
def test_a_template_that_fails_is_one_line(template: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"node01\.example: x: cannot be te") as caught:
        variables(x=template, gpus="eight").text("x")
    assert said in str(caught.value)


def test_booleans_as_ansible_reads_them() -> None:
    assert variables(b="yes").flag("b")
    assert variables(b=True).flag("b")
    assert not variables(b=False).flag("b")
    assert not variables().flag("b")


def test_the_first_name_that_is_set_wins() -> None:
    assert variables(old=1, new=2).number("new", "old") == 2
    assert variables(old=1).number("new", "old") == 1


def _encrypted(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    password = folder / "password"
    password.write_text("open sesame")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    command = [sys.executable, "-m", "ansible", "vault", "encrypt", "--output=-", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def test_a_vaulted_value_is_decrypted_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = _encrypted("s3cret", tmp_path, monkeypatch)
    found = variables(direct={"__ansible_vault": secret}, through="{{ direct }}")
    assert found.text("direct") == "s3cret"
    assert found.text("through") == "s3cret"


def test_a_vault_without_its_password_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    sealed = variables(x={"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n6135\n"})
    with pytest.raises(UsageError, match=r"node01.example: x: .* set ANSIBLE_VAULT_PASSWORD_FILE"):
        sealed.text("x")


def test_a_vault_with_another_password_says_that_it_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = variables(x={"__ansible_vault": _encrypted("one", tmp_path, monkeypatch)}, y="{{ x }}")
    (tmp_path / "password").write_text("another")
    for name in ("x", "y"):
        with pytest.raises(UsageError, match=f"{name}: is encrypted, .* does not open it"):
            sealed.text(name)


def test_an_unsafe_value_is_no_template() -> None:
    found = variables(x={"__ansible_unsafe": "p{{w{%}}"}, y="{{ x }}!", z="{{ y }}")
    assert (found.text("x"), found.text("y"), found.text("z")) == (
        "p{{w{%}}",
        "p{{w{%}}!",
        "p{{w{%}}!",
    )


@pytest.mark.parametrize(("value", "kind"), [({"x": 1}, "mapping"), (["x"], "list")])
def test_a_list_or_a_mapping_is_no_value(value: object, kind: str) -> None:
    with pytest.raises(UsageError, match=f"x: is a {kind}; one value is wanted"):
        variables(x=value).text("x")
