import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.operation import Operation, load


def test_a_collective_is_found_by_its_name() -> None:
    operation = load("all_reduce")
    assert isinstance(operation, Operation)
    assert operation.name == "all_reduce"


@pytest.mark.parametrize("name", ["rank", "no_such", "..launch", "os.path", ""])
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises((ValueError, ModuleNotFoundError)):
        load(name)
