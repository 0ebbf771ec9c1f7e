"""What hwcheck brings is found from anywhere."""

from pathlib import Path

import pytest

from hwcheck import shipped


def test_the_default_inventory_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = shipped.find("inventory/local.yml")
    assert found is not None
    assert "ansible_connection: local" in found.read_text()


def test_a_file_of_the_user_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "local.yml").write_text("mine")
    monkeypatch.chdir(tmp_path)
    found = shipped.find("inventory/local.yml")
    assert found is not None
    assert found.read_text() == "mine"


@pytest.mark.parametrize("name", ["pyproject.toml", "/inventory/local.yml", "inventory/nosuch.yml"])
def test_nothing_else_is_looked_up(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped.find(name) is None
