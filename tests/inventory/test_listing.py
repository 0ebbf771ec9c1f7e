"""A pattern that Ansible would take for every host is refused."""

from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.listing import refuse_empty_pattern, unfolded_limit

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
def test_a_pattern_that_names_no_host(limit: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_empty_pattern(limit)
    assert text in str(caught.value)
    assert str(caught.value).startswith("--limit ")


@pytest.mark.parametrize(
    "limit",
    ["a", "a,,b", "h100:!node03", "!a", ":!a", "~node0[13]:!node03", "all[0:1]", "[ab]*", "a:&b"],
)
def test_what_names_hosts(limit: str) -> None:
    refuse_empty_pattern(limit)
    with pytest.raises(UsageError, match=UNCLOSED):
        refuse_empty_pattern(f"{limit},[")


@pytest.mark.parametrize(("content", "empty"), [("", True), ("\n \n", True), ("a\nb\n", False)])
def test_a_file_of_patterns(tmp_path: Path, content: str, empty: bool) -> None:
    file = tmp_path / "limit"
    file.write_text(content)
    if not empty:
        refuse_empty_pattern(f"@{file}")
        return
    with pytest.raises(UsageError, match="names no host; leave --limit out"):
        refuse_empty_pattern(f"@{file}")


@pytest.mark.parametrize(
    ("limit", "pattern"),
    [
        ("node[02-03]", "node02:node03"),
        ("node[02-03,07],login", "node02,node03,node07,login"),
        ("h100:!node[02-03]", "h100:!node02:!node03"),
        ("h100,!node[1-2]", "h100,!node1,!node2"),
        ("webservers[0:2]", "webservers[0:2]"),
        ("node[0]", "node[0]"),
        ("~node[0-9]+", "~node[0-9]+"),
        ("@runs/latest/retry", "@runs/latest/retry"),
        (None, None),
    ],
)
def test_hosts_as_hwcheck_prints_them_are_a_pattern(limit: str | None, pattern: str | None) -> None:
    assert unfolded_limit(limit) == pattern


@pytest.mark.parametrize("limit", ["node[3-1]", "h100:&node[1-2]", "node[1-99999999]"])
def test_a_range_in_a_limit_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(UsageError, match=r"^--limit "):
        unfolded_limit(limit)
