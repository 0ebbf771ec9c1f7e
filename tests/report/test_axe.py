"""The report, looked at by axe-core in headless Chromium: ``make axe``.

It needs Chromium and axe-core (one package of npm, put under .venv by ``make axe``), and skips
without them. axe looks at the page as it is drawn: roles, names, headings, the contrast of every
text, in the light, in the dark and on a phone.
"""

from __future__ import annotations

import html as entities
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.report.html import html
from tests import factories
from tests.factories import gpu_host
from tests.report.chromium import CHROMIUM, FLAGS
from tests.report.example import judged

AXE = Path(sys.prefix) / "axe/node_modules/axe-core/axe.min.js"
LOOKS = {
    "light": ("--window-size=1280,2000",),
    "dark": ("--window-size=1280,2000", "--blink-settings=preferredColorScheme=0"),
    "phone": ("--window-size=390,2000",),
}
RUN = """
for (const each of document.querySelectorAll("details")) each.open = true;
axe.run(document, {resultTypes: ["violations"]}).then((found) => {
  const said = document.createElement("pre");
  said.id = "axe-found";
  said.textContent = JSON.stringify(found.violations.map((each) => ({
    rule: each.id, help: each.help,
    nodes: each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
  })));
  document.body.append(said);
});
"""

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not (CHROMIUM and AXE.is_file()), reason="make axe brings what it needs"),
]


def violations(page: str, folder: Path, *look: str) -> list[dict[str, Any]]:
    """Return what axe finds in a page. Its policy would refuse axe, so this copy has none."""
    free = re.sub(r"<meta http-equiv[^>]*>", "", page)
    copy = folder / "page.html"
    scripts = f"<script>{AXE.read_text()}</script><script>{RUN}</script></body>"
    copy.write_text(free.replace("</body>", scripts), "utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *look]
    command += ["--virtual-time-budget=60000", "--dump-dom", f"file://{copy}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    said = re.search(r'<pre id="axe-found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert said, done.stdout[-500:]
    found: list[dict[str, Any]] = json.loads(entities.unescape(said[1]))
    return found


@pytest.fixture(scope="module")
def racked() -> Assessment:
    """Twelve hosts in racks, one of them bad, so that every picture is there."""
    hosts = [gpu_host(f"n{i:02}", power_limit_w=(0, 300.0) if i == 3 else 700.0) for i in range(12)]
    run = factories.run(*hosts)
    plans = tuple(replace(plan, rack=f"R{at // 4}") for at, plan in enumerate(run.meta.hosts))
    return judged(replace(run, meta=replace(run.meta, hosts=plans)))


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_found_at_any_size(look: str, sized: str, tmp_path: Path) -> None:
    assert violations(sized, tmp_path, *LOOKS[look]) == []


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_found(look: str, shown: Assessment, racked: Assessment, tmp_path: Path) -> None:
    for name, assessment in (("shown", shown), ("racked", racked)):
        (tmp_path / name).mkdir()
        assert violations(html(assessment), tmp_path / name, *LOOKS[look]) == []


def test_the_control_what_cannot_be_read_is_found(shown: Assessment, tmp_path: Path) -> None:
    pale = html(shown).replace("--soft: #565d66", "--soft: #d8dce0")
    assert [each["rule"] for each in violations(pale, tmp_path)] == ["color-contrast"]
