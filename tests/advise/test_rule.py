"""Where the rules are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hwcheck.advise import rule as registry


def test_a_file_without_its_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.importlib, "import_module", lambda name: SimpleNamespace())
    registry.load.cache_clear()
    with pytest.raises(TypeError, match=r"rules/\w+\.py has no rule named"):
        registry.load()
    monkeypatch.undo()
    registry.load.cache_clear()
    assert len(registry.load()) > 40
