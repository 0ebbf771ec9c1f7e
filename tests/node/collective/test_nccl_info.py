"""The reader of NCCL's own log, on the forms of several versions."""

import pytest

from hwcheck.node.collective.nccl_info import CUT, MOST, NcclInfo, read
from tests.proportion import assert_in_proportion

PREFIX = "node7:4100:4133 [0] NCCL INFO "


def info(*lines):
    return read("\n".join(PREFIX + line for line in lines) + "\n")


def test_a_text_without_nccl_says_nothing():
    assert read("epoch 1 loss 2.5\nvia the road to 1[1]\n") == NcclInfo()
    assert read("") == NcclInfo()


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NCCL version 2.27.3+cuda12.9", "2.27.3"),
        ("NCCL version 2.8.4+cuda11.2", "2.8.4"),
        ("RCCL version : 2.22.3-HEAD:abc", "2.22.3"),
        ("[1,0]<stdout>:NCCL version 2.30.7", "2.30.7"),
        ("NCCL version unknown", ""),
    ],
)
def test_version(line, version):
    assert read(line).version == version


def test_settings_lose_the_period_that_follows_a_number_only():
    said = info(
        "NCCL_P2P_DISABLE set by environment to 1.",
        "NCCL_P2P_LEVEL set by environment to LOC",
        "NCCL_SOCKET_IFNAME set by environment to =ens1f0",
        "NCCL_CROSS_NIC set to -2.",
        "NCCL_TOPO_FILE set by environment to /etc/topo.v1.",
    )
    assert said.env_set == {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_P2P_LEVEL": "LOC",
        "NCCL_SOCKET_IFNAME": "=ens1f0",
        "NCCL_CROSS_NIC": "-2",
        "NCCL_TOPO_FILE": "/etc/topo.v1.",
    }


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "P2P/CUMEM"),
        ("Channel 03/1 : 5[5] -> 4[4] via P2P/CUMEM/read", "P2P/CUMEM"),
        ("Channel 00 : 2[3b000] -> 3[5e000] via P2P/IPC/read", "P2P/IPC"),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", "P2P/direct pointer"),
        (
            "Channel 00 : 0[1] -> 1[2] via P2P/direct pointer/read comm 0x7f nRanks 04",
            "P2P/direct pointer",
        ),
        ("Channel 00/0 : 0[0] -> 3[3] via P2P/indirect/1[1]", "P2P/indirect"),
        ("Channel 02/0 : 4[0] -> 3[3] via P2P/MNNVL", "P2P/MNNVL"),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "SHM"),
        ("Channel 00 : 0[0] -> 1[1] via SHM/CE/direct", "SHM"),
        ("Channel 00 : 2[89000] -> 3[b2000] via direct shared memory", "SHM"),
        ("Ring 00 : 0[3] -> 1[4] via P2P/IPC", "P2P/IPC"),
        ("Ring 01 : 1 -> 0 via NET/IB/1", "NET/IB"),
        ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0", "NET/Socket"),
        ("Channel 05 : 3[201d0] -> 10[201c0] [send] via NET/AWS Libfabric/1", "NET/AWS Libfabric"),
        ("Channel 00/0 : 3[3] -> 8[0] [send] via NET/IBext_v8/2(5)/Shared", "NET/IBext_v8"),
        ("CollNet 00/0 : 1 [send] via COLLNET/SHARP/0/GDRDMA", "COLLNET/SHARP"),
    ],
)
def test_each_way_of_the_data(line, kind):
    assert info(line).transports == {kind: 1}


@pytest.mark.parametrize(
    "line",
    [
        "Ring 00 : 1 -> 0 -> 1",
        "Channel 00/04 : 0 1 2 3",
        "NET/IB : No device found.",
        "Connected all rings, use ring PXN 0 GDR 1",
    ],
)
def test_what_is_no_connection_counts_as_none(line):
    assert info(line).transports == {}


def test_gpudirect_is_counted_where_the_line_says_it():
    said = info(
        "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA",
        "Channel 01/0 : 3[3] -> 8[0] [send] via NET/IB/3(5)/GDRDMA(PCI)/Shared",
        "Channel 02/0 : 3[3] -> 8[0] [send] via NET/IB/0",
    )
    assert said.transports == {"NET/IB": 3}
    assert said.gdrdma == 2


def test_lines_that_ran_into_each_other():
    said = read(
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEMnode7:1:2 [1] NCCL INFO Channel 00/0 : "
        "1[1] -> 0[0] via SHM/direct/direct\n"
    )
    assert sum(said.transports.values()) == 2


@pytest.mark.parametrize(
    ("line", "channels", "nvls"),
    [
        ("24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels", 24, True),
        ("24 coll channels, 0 nvls channels, 32 p2p channels", 24, False),
        ("2 coll channels, 2 p2p channels, 2 p2p channels per peer", 2, False),
        (
            "comm:0x58, nRanks:4, nNodes:1, coll channels:8 collnet channels:8, nvls channels:0",
            8,
            False,
        ),
        ("Channel 11/12 :    0   1   2   3", 12, False),
        ("Connected NVLS tree", 0, True),
        ("NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)", 0, False),
    ],
)
def test_channels_and_nvls(line, channels, nvls):
    said = info(line)
    assert (said.channels, said.nvls) == (channels, nvls)


def test_the_largest_communicator_counts():
    said = info(
        "comm 0x7f9c rank 1 nranks 2 cudaDev 0 busId f5000 - Init COMPLETE",
        "ncclCommInitRank comm 0x60 rank 0 nranks 8 cudaDev 0 - Init COMPLETE",
    )
    assert said.ranks == 8


@pytest.mark.parametrize(
    ("line", "way"),
    [
        (
            "AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
            "AllReduce RING/SIMPLE",
        ),
        (
            "AllGather: 1048576 Bytes -> Algo Ring proto LL128 channel{Lo..Hi}={0..3}",
            "AllGather RING/LL128",
        ),
        ("AllReduce: 4194304 Bytes -> Algo 4 proto 2 time 31.5", "AllReduce NVLS/SIMPLE"),
        # 2.20 to 2.22, without the collective's name
        ("4194304 Bytes -> Algo 4 proto 2 time 31.500000", "collective NVLS/SIMPLE"),
        ("8 Bytes -> Algo 0 proto 0 time 9.100000", "collective TREE/LL"),
        ("AllReduce: 4 Bytes -> Algo 99 proto 0 time 9", "AllReduce 99/LL"),
        (
            "AllReduce [Symmetric]: 1024 Bytes -> Kernel AllReduce_RSxLD_AGxST nchannels 8",
            "AllReduce AllReduce_RSxLD_AGxST",
        ),
    ],
)
def test_algorithm_and_protocol(line, way):
    assert info(line).algorithms == {way: 1}


def test_network_and_its_interfaces():
    said = info(
        "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_bond_0:1/IB [RO]; OOB bond0:10.9.8.7<0>",
        "Using network IB",
    )
    assert said.network == "IB"
    assert said.interfaces == ("mlx5_0:1/RoCE", "mlx5_bond_0:1/IB")
    said = info(
        "NET/Socket : Using [0]eth0:10.9.8.7<0> [1]ens1:fe80::1%ens1<0>", "Using network Socket"
    )
    assert (said.network, said.interfaces) == ("Socket", ("eth0", "ens1"))
    assert info("Assigned NET plugin AWS Libfabric to comm").network == "AWS Libfabric"


def test_warnings_are_cut_and_counted():
    line = "node7:4100:4133 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend" + " x" * 200
    said = read("\n".join([line] * 3 + ["h NCCL WARN Cuda failure 'out of memory'"]))
    assert said.warning_count == 4
    assert [len(text) <= CUT for text in said.warnings] == [True, True]
    assert said.warnings[1] == "Cuda failure 'out of memory'"


def test_refusals_of_p2p_are_counted():
    said = info(
        "Could not enable P2P between dev 1(=3d000) and dev 0(=1a000)",
        "P2P is disabled between connected GPUs 2 and 3. You can repress this message with X",
    )
    assert said.p2p_refused == 2


@pytest.mark.parametrize(
    "text",
    [
        "Channel 0/1 :" + " 1" * 50_000,
        "0[0] -> 1[1] via NET/" + "x" * 100_000,
        "NCCL WARN " * 10_000,
        "NET/IB : Using " + "[1]a" * 25_000,
        "NCCL_" * 20_000,
        "\0" * 100_000,
        "Using network a " * 60_000,
        "1 Bytes -> " * 60_000,
        "x: " * 100_000,
    ],
)
def test_a_hostile_text_takes_time_in_proportion(text):
    assert_in_proportion(read, text)


def test_a_hostile_log_does_not_grow_the_record():
    names = "".join(f"NCCL_A{n} set by environment to {'v' * 500}\n" for n in range(5000))
    ways = "".join(f"0[0] -> 1[1] via NET/n{n}/0\n" for n in range(5000))
    said = read(names + ways)
    assert len(said.env_set) == len(said.transports) == MOST
    assert {len(value) for value in said.env_set.values()} == {CUT}
