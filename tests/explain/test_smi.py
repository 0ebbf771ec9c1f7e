"""``nvidia-smi -q`` in both forms, and ``nvidia-smi nvlink``."""

from __future__ import annotations

import pytest

from hwcheck.explain.explain import explain
from hwcheck.explain.smi import notes
from hwcheck.explain.sources import LogFile
from tests.proportion import assert_in_proportion


def text_form(*gpus: str, attached: int | None = None) -> str:
    head = (
        "\n==============NVSMI LOG==============\n\nDriver Version        : 570.1\n"
        f"Attached GPUs         : {attached or len(gpus)}\n"
    )
    return head + "".join(f"GPU 00000000:{n:02X}:00.0\n{gpu}\n" for n, gpu in enumerate(gpus, 1))


def gpu(
    bar1: int = 256,
    memory: int = 24000,
    mig: str = "Disabled",
    state: str = "N/A",
    gen: int = 4,
    width: int = 16,
) -> str:
    return f"""    Product Name                          : NVIDIA L99
    MIG Mode
        Current                           : {mig}
        Pending                           : Disabled
    MIG Device
        BAR1 Memory Usage
            Total                         : 7 MiB
    PCI
        Bus                               : 0x19
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : {gen}
            Link Width
                Max                       : 16x
                Current                   : {width}x
    Performance State                     : P8
    Clocks Event Reasons
        HW Slowdown                       : Not Active
    FB Memory Usage
        Total                             : {memory} MiB
    BAR1 Memory Usage
        Total                             : {bar1} MiB
    Fabric
        State                             : {state}
        Status                            : {"Success" if state == "Completed" else "N/A"}
"""


def said(*gpus: str, attached: int | None = None) -> str:
    return "\n".join(notes(text_form(*gpus, attached=attached)))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "every GPU: BAR1 of 256 MiB is smaller than its 24000 MiB (no resizable BAR)"),
        ({"bar1": 32768}, "every GPU: BAR1 of 32768 MiB holds all of its 24000 MiB"),
        ({"mig": "Enabled"}, "every GPU: MIG is enabled: no P2P"),
        ({"state": "Completed"}, "every GPU: fabric Completed, Success"),
        ({"state": "In Progress"}, "fabric In Progress, N/A: NCCL cannot use the NVSwitches yet"),
        ({"gen": 1}, "PCIe Gen1 of Gen4 in P8: an idle link sleeps, so judge it under load only"),
        ({"width": 8}, "8 of 16 PCIe lanes"),
    ],
)
def test_what_matters_to_nccl(given: dict[str, object], told: str) -> None:
    assert told in said(gpu(**given), gpu(**given))  # type: ignore[arg-type]
    healthy = said(gpu(bar1=24001), gpu(bar1=24001))
    assert told not in healthy
    assert len(healthy.splitlines()) == 2


def test_gpus_that_differ_are_told_apart() -> None:
    told = said(gpu(bar1=32768), gpu(), gpu(bar1=32768))
    assert "GPU 0, 2: BAR1 of 32768 MiB" in told
    assert "GPU 1: BAR1 of 256 MiB is smaller" in told


def test_a_listing_that_is_cut() -> None:
    whole = text_form(gpu(), gpu())
    assert "cut" not in "\n".join(notes(whole))
    assert "it is cut: 2 of 8 attached GPUs are shown" in said(gpu(), gpu(), attached=8)
    assert "nothing of BAR1 is said of GPU 1" in "\n".join(notes(whole[: whole.rindex("    BAR1")]))
    for length in range(0, len(whole), 97):
        notes(whole[:length])


XML = """<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>570.1</driver_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA L99</product_name>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <mig_devices><mig_device>
      <bar1_memory_usage><total>7 MiB</total></bar1_memory_usage>
    </mig_device></mig_devices>
    <pci><pci_gpu_link_info><pcie_gen>
      <max_link_gen>5</max_link_gen><current_link_gen>1</current_link_gen>
    </pcie_gen></pci_gpu_link_info></pci>
    <performance_state>P8</performance_state>
    <fb_memory_usage><total>24000 MiB</total></fb_memory_usage>
    <bar1_memory_usage><total>256 MiB</total></bar1_memory_usage>
    <fabric><state>Completed</state><status>Success</status></fabric>
  </gpu>
</nvidia_smi_log>
"""


def test_the_form_of_x() -> None:
    told = "\n".join(notes(XML))
    assert "nvidia-smi -q: 1x NVIDIA L99, driver 570.1" in told
    for part in (
        "BAR1 of 256 MiB is smaller",
        "MIG is enabled",
        "Gen1 of Gen5",
        "fabric Completed",
    ):
        assert f"the GPU: {part}" in told or part in told
    for length in range(0, len(XML), 31):
        notes(XML[:length])


def test_the_plain_table_says_what_to_run() -> None:
    table = "| NVIDIA-SMI 525.1   Driver Version: 525.1   CUDA Version: 12.0     |"
    (told,) = notes(table)
    assert "driver 525.1" in told
    assert "nvidia-smi -q" in told


LINKS = """GPU 0: NVIDIA A99 (UUID: GPU-1)
\t Link 0: {}
\t Link 1: 25 GB/s
GPU 1: NVIDIA A99 (UUID: GPU-2)
\t Link 0: 25 GB/s
\t Link 1: 25 GB/s
"""


def test_nvlinks_that_are_up_and_not() -> None:
    assert notes(LINKS.format("25 GB/s")) == (
        "nvidia-smi nvlink of NVIDIA A99: 2 GPUs with 2 links up",
    )
    told = notes(LINKS.format("<inactive>"))
    assert "1 GPU with 1 link up, 1 GPU with 2 links up" in told[0]
    assert told[1].startswith("GPU 0: NVLink 0 inactive")


ERRORS = """GPU 0: NVIDIA A99 (UUID: GPU-1)
\t Link 0: Replay Errors: {}
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: 0
"""


def test_nvlink_error_counters() -> None:
    assert notes(ERRORS.format(12)) == ("NVLink errors: GPU 0 link 0 Replay Errors: 12",)
    assert notes(ERRORS.format(0)) == ("nvidia-smi nvlink: no error counter of 1 GPU is above 0",)


def test_it_is_of_no_kind_that_has_a_name() -> None:
    (entry,) = explain(LogFile("f", text_form(gpu())))
    assert entry.to_dict()["kind"] == "unknown"
    assert entry.notes[0].startswith("nvidia-smi -q: 1x NVIDIA L99")


@pytest.mark.parametrize(
    "text",
    [
        "==NVSMI LOG==" + "GPU 00000000:01:00.0\n" * 30_000,
        "==NVSMI LOG==\n" + " " * 400_000,
        "==NVSMI LOG==\n" + "a : b\n" * 50_000,
        "<nvidia_smi_log>" + "<gpu>" * 80_000,
        "<nvidia_smi_log>" + "</gpu>" * 60_000,
        "GPU 0: x (UUID: \n" + "Link 0: Replay Errors: 5\n" * 15_000,
        "\n" * 400_000 + "Link",
        "ACSCtl: " * 50_000,
    ],
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    assert_in_proportion(lambda part: explain(LogFile("f", part)), text)


def test_links_that_a_board_does_not_use_are_no_fault() -> None:
    head = "GPU 0: NVIDIA H100 NVL (UUID: GPU-1)\n"
    unused = (4, 5, 10, 11, 16, 17)
    links = [f"\t Link {n}: {'<inactive>' if n in unused else '26.562 GB/s'}\n" for n in range(18)]
    told = notes(head + "".join(links))
    assert told[1] == (
        "GPU 0: NVLink 4, 5, 10, 11, 16, 17 inactive by design: its bridges join 12 of 18 links"
    )
    one_more = notes(head + "".join(links).replace("Link 0: 26.562 GB/s", "Link 0: <inactive>"))
    assert "by design" not in one_more[1]
    sxm = notes(head.replace("H100 NVL", "H100 80GB HBM3") + "".join(links))
    assert "by design" not in sxm[1]
