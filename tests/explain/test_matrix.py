"""The reader of ``nvidia-smi topo``."""

from __future__ import annotations

import pytest

from hwcheck.explain.matrix import read
from hwcheck.explain.records import TopologyMatrix, Unknown
from tests.explain.matrices import LEGEND, blanks, gpus, markdown, square, tabs
from tests.proportion import assert_in_proportion

FOUR = square(gpus(4), ["NV4", "PIX", "SYS", "SYS", "NODE", "NV4"])
WITH_NICS = square([*gpus(2), "NIC0", "NIC1"], ["NV2", "PIX", "SYS", "SYS", "PXB", "SYS"])


def one(text: str) -> TopologyMatrix:
    (matrix,) = read("topo.txt", text)
    assert isinstance(matrix, TopologyMatrix), matrix.notes
    return matrix


def refusals(text: str) -> list[str]:
    """Return why each matrix of a text is refused; an empty text for one that is read."""
    return [
        entry.notes[0].partition("a damaged matrix of nvidia-smi topo: ")[2]
        if isinstance(entry, Unknown)
        else ""
        for entry in read("topo.txt", text)
    ]


@pytest.mark.parametrize("form", [tabs, blanks, markdown])
def test_every_form_gives_the_same_cells(form) -> None:
    matrix = one(form(FOUR))
    assert matrix.kind == "topology"
    assert matrix.gpus == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert matrix.cells["GPU1"] == {"GPU0": "NV4", "GPU2": "SYS", "GPU3": "NODE"}
    assert matrix.complete
    assert matrix.nvlink == "some"


def test_colors_of_the_header_are_passed_over() -> None:
    text = tabs(FOUR).replace("GPU0\t", "\x1b[4mGPU0\x1b[0m\t", 1)
    assert one(text).cells["GPU0"]["GPU1"] == "NV4"


def test_a_header_without_its_first_tab() -> None:
    assert one(tabs(FOUR).lstrip("\t")).cells["GPU3"]["GPU2"] == "NV4"


def test_lines_with_the_prefix_of_a_launcher() -> None:
    text = "\n".join(f"node7: {row}" for row in tabs(FOUR).splitlines())
    assert one(text).cells["GPU3"]["GPU2"] == "NV4"


@pytest.mark.parametrize(
    ("ways", "nvlink"),
    [
        (["NV18"], "all"),
        (["NV1", "NV2", "NV1", "NV1", "NV2", "NV1"], "all"),
        (["SYS"], "none"),
        (["NV4", "SYS", "SYS", "SYS", "SYS", "NV4"], "some"),
    ],
)
def test_how_many_pairs_have_nvlink(ways: list[str], nvlink: str) -> None:
    assert one(tabs(square(gpus(4), ways))).nvlink == nvlink


def test_the_pcie_view_tells_nothing_of_nvlink() -> None:
    matrix = one("$ nvidia-smi topo -mp\n" + tabs(square(gpus(4), ["SYS"])))
    assert matrix.nvlink is None
    assert any("-mp leaves NVLink out" in note for note in matrix.notes)


def test_one_gpu_has_no_pair() -> None:
    assert one("\tGPU0\tCPU Affinity\nGPU0\t X \t0-15\n").nvlink == "none"


def test_nics_take_their_names_from_the_legend_in_the_order_of_the_columns() -> None:
    legend = "\nNIC Legend:\n\n  NIC0: mlx5_3\n  NIC1: rocep1s0\n"
    matrix = one(tabs(WITH_NICS) + legend)
    assert matrix.nics == ("mlx5_3", "rocep1s0")
    assert matrix.cells["GPU1"]["rocep1s0"] == "PXB"
    assert one(tabs(WITH_NICS)).nics == ("NIC0", "NIC1")
    assert "nearest NICs: GPU0 mlx5_3, GPU1 rocep1s0" in matrix.notes


def test_nics_by_their_own_names() -> None:
    rows = square([*gpus(2), "mlx5_2", "mlx5_0"], ["PIX", "SYS", "SYS", "SYS", "SYS", "PIX"])
    matrix = one(tabs(rows))
    assert matrix.nics == ("mlx5_2", "mlx5_0")
    assert any("no GPU has a NIC at PIX or PXB" in note for note in matrix.notes)
    assert any("mlx5_2+mlx5_0" in note for note in matrix.notes)


def test_a_row_that_is_missing_is_said_and_not_made_up() -> None:
    text = "\n".join(tabs(FOUR).splitlines()[:4])
    matrix = one(text)
    assert "GPU3" not in matrix.cells
    assert matrix.complete  # the other rows show every pair
    assert any("rows missing or short (GPU3)" in note for note in matrix.notes)
    cut = one("\n".join(tabs(FOUR).splitlines()[:3]))
    assert not cut.complete
    assert any("1 pair of GPUs not shown" in note for note in cut.notes)


def test_a_row_that_was_cut() -> None:
    text = tabs(FOUR).replace("GPU3\tSYS\tNODE\tNV4\t X \t0-15\t0", "GPU3\tSYS\tNO")
    matrix = one(text)
    assert matrix.cells["GPU3"] == {"GPU0": "SYS"}
    assert any("short (GPU3)" in note for note in matrix.notes)


def test_two_rows_that_contradict_each_other() -> None:
    damaged = tabs(FOUR).replace("GPU1\tNV4", "GPU1\tSYS")
    assert refusals(damaged) == ["GPU0 and GPU1 contradict each other: NV4 and SYS"]


def broken(text: str, device: str) -> str:
    """Break the header before a device."""
    first, line_end, rest = text.partition("\n")
    return first.replace(device, "\n" + device, 1) + line_end + rest


@pytest.mark.parametrize("form", [tabs, blanks, markdown])
@pytest.mark.parametrize(
    ("device", "contradiction"),
    [
        ("GPU1", "the row of GPU0 has NV4 behind its 1 column of devices"),
        ("GPU2", "the row of GPU0 has PIX behind its 2 columns of devices"),
        ("GPU3", "the row of GPU0 has SYS behind its 3 columns of devices"),
    ],
)
def test_a_header_broken_over_two_lines_is_no_smaller_machine(form, device, contradiction) -> None:
    (refusal,) = refusals(broken(form(FOUR), device))
    # The rest of the header begins with a GPU, too: the rows are those of the second line.
    assert refusal == "GPU0 has a row, and no column in the header"
    joined = broken(form(FOUR), device).replace("\n" + device, "\nNUMA\t" + device, 1)
    assert refusals(joined) == [refusal]
    without = "\n".join(broken(form(FOUR), device).splitlines()[::2][:1])
    rows = form(FOUR).splitlines()[1:]
    assert refusals("\n".join([without, *rows])) == [contradiction]


def test_a_header_broken_before_a_nic_is_no_machine_without_it() -> None:
    text = broken(tabs(WITH_NICS), "NIC1")
    assert refusals(text) == ["the row of GPU0 has SYS behind its 3 columns of devices"]
    text = tabs(WITH_NICS).replace("\tNIC1\t", "\t", 1).replace("GPU0\t X \tNV2\tPIX\tSYS", "")
    assert refusals(text) == ["the row of GPU1 has PXB behind its 3 columns of devices"]


def test_a_row_of_a_device_that_the_header_does_not_have() -> None:
    text = tabs(square(gpus(3), ["SYS"])).replace("\n\n", "\nGPU3\tSYS\tSYS\tSYS\t X \t0-15\n\n", 1)
    assert refusals(text) == ["GPU3 has a row, and no column in the header"]


def test_a_row_that_is_shifted() -> None:
    text = tabs(FOUR).replace("GPU2\tPIX\tSYS\t X ", "GPU2\tSYS\t X \tNV4")
    assert refusals(text) == ["the row of GPU2 has X in the column of GPU1"]
    swapped = tabs(FOUR).replace("GPU2\tPIX\tSYS\t X ", "GPU2\tPIX\tSYS\tSYS")
    assert refusals(swapped) == ["the row of GPU2 has SYS in the column of GPU2"]


def test_one_of_two_matrices_may_be_damaged() -> None:
    text = broken(tabs(FOUR), "GPU2") + "\n" + blanks(square(gpus(2), ["NS"])) + LEGEND
    assert refusals(text) == ["GPU0 has a row, and no column in the header", ""]


def test_statuses_need_not_be_the_same_in_both_directions() -> None:
    assert refusals(blanks(square(gpus(2), ["OK"])).replace("OK", "NS", 1) + LEGEND) == [""]


def test_a_second_row_of_a_device_is_left_out() -> None:
    matrix = one(blanks(FOUR) + "\n" + blanks(FOUR).splitlines()[1].replace("NV4", "SYS"))
    assert matrix.cells["GPU0"]["GPU1"] == "NV4"
    assert any("1 row left out" in note for note in matrix.notes)


def test_the_old_word_for_sys() -> None:
    assert one(tabs(square(gpus(2), ["SOC"]))).cells["GPU0"]["GPU1"] == "SYS"


@pytest.mark.parametrize("status", ["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"])
def test_p2p_status(status: str) -> None:
    matrix = one(blanks(square(gpus(2), [status])) + LEGEND)
    assert (matrix.kind, matrix.nvlink) == ("p2p-status", None)
    assert matrix.cells == {"GPU0": {"GPU1": status}, "GPU1": {"GPU0": status}}
    assert "nvlink" not in matrix.to_dict()
    granted = any("P2P is granted to 2 ordered pairs" in note for note in matrix.notes)
    refused = any(note.startswith(f"{status} (") for note in matrix.notes)
    assert (granted, refused) == (status == "OK", status != "OK")


def test_both_matrices_in_one_text() -> None:
    text = tabs(square(gpus(2), ["NODE"])) + "\n" + blanks(square(gpus(2), ["NS"])) + LEGEND
    assert [each.kind for each in read("x", text)] == ["topology", "p2p-status"]


def test_json_shape() -> None:
    said = one(tabs(WITH_NICS)).to_dict()
    assert list(said) == ["file", "kind", "gpus", "nvlink", "matrix", "nics", "notes"]
    assert (said["gpus"], said["nvlink"], said["nics"]) == (2, "all", ["NIC0", "NIC1"])
    assert said["matrix"]["GPU0"] == {"GPU1": "NV2", "NIC0": "PIX", "NIC1": "SYS"}


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        (square(gpus(8), ["NV18"]), "every pair has NV18: a full mesh"),
        (square(gpus(2), ["PHB"]), "verify the data"),
        (square(gpus(4), ["NODE"]), "NODE: the way leads through the CPU"),
        (square(gpus(4), ["NV4", *["SYS"] * 4, "NV4"]), "NCCL_P2P_LEVEL=NVL keeps NVLink"),
        (square(gpus(3), ["NV1", "SYS", "NV1"]), "NCCL can relay through it (NVB)"),
    ],
)
def test_what_the_ways_mean(rows: dict[str, list[str]], note: str) -> None:
    assert any(note in each for each in one(tabs(rows)).notes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no matrix here\n",
        "GPU0 and GPU1 are fine\n",
        "\tGPU0\tGPU1\n",
        "\tGPU0\tGPU1\nGPU0 is lost\n",
        LEGEND,
        "GPU 00000000:01:00.0\n    Product Name : X\n",
    ],
)
def test_what_is_no_matrix(text: str) -> None:
    assert read("x", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "\t" + "\t".join(f"GPU{n}" for n in range(100_000)) + "\nGPU0\tX\n",
        "\tGPU0\tGPU1\n" + "GPU0\t" + "SYS\t" * 100_000,
        "\tGPU0\tGPU1\n" + "GPU0\tX\tSYS\n" * 20_000,
        ("\tGPU0\tGPU1\nGPU0\tX\tSYS\n") * 50_000,
        "\x1b[" * 50_000,
    ],
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    assert_in_proportion(lambda part: read("x", part), text)
    found = read("x", text)
    assert len(found) <= 100
    assert all(len(each.gpus) <= 128 for each in found if isinstance(each, TopologyMatrix))
