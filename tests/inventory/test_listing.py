"""A pattern that Ansible would take for every host is refused."""

from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.listing import refuse_hollow

UNCLOSED = "a bracket has no other"


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        *(
            (limit, "names no host; leave --limit out")
            for limit in ("", " ", ",", ":", " , ", "::")
        ),
        *((limit, UNCLOSED) for limit in ("[", "~[", "a,[", "a[1", "~a[", "a]")),
        *((limit, "'!' names no host; put a") for limit in ("!", "! a", "!:a", "a,!")),
        ("a:&", "'&' names no host"),
        ("~", "'~' names no host"),
        ("!~", "'!~' names no host"),
        ("@nosuch", "nosuch: No such file or directory"),
        ("@.", ".: Is a directory"),
    ],
)
def test_hollow(limit: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_hollow(limit)
    assert text in str(caught.value)
    assert str(caught.value).startswith("--limit ")


@pytest.mark.parametrize(
    "limit",
    ["a", "a,,b", "h100:!node03", "!a", ":!a", "~node0[13]:!node03", "all[0:1]", "[ab]*", "a:&b"],
)
def test_what_names_hosts(limit: str) -> None:
    refuse_hollow(limit)
    with pytest.raises(UsageError, match=UNCLOSED):
        refuse_hollow(f"{limit},[")


@pytest.mark.parametrize(("content", "hollow"), [("", True), ("\n \n", True), ("a\nb\n", False)])
def test_a_file_of_patterns(tmp_path: Path, content: str, hollow: bool) -> None:
    file = tmp_path / "limit"
    file.write_text(content)
    if not hollow:
        refuse_hollow(f"@{file}")
        return
    with pytest.raises(UsageError, match="names no host; leave --limit out"):
        refuse_hollow(f"@{file}")
