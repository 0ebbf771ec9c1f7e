"""Small packages with the names, versions and dependencies of NVIDIA's."""

from __future__ import annotations

from collections.abc import Sequence

from tests.roles.machine import KERNEL
from tests.roles.packages import Package

OLD, NEW, NEXT = "580.65.06", "580.95.05", "590.44.01"
MODULE = f"/usr/lib/modules/{KERNEL}/updates/dkms/nvidia.ko"
FABRIC = "/usr/share/nvidia/nvswitch/fabricmanager.cfg"
IMEX = "/etc/nvidia-imex/config.cfg"
COUNTERS = "/etc/dcgm-exporter/default-counters.csv"
EXPORTER = """\
#!/usr/bin/python3
# Answers with the metrics that its file names.
import http.server, sys
words = sys.argv[1:]
names = [line.split(",")[0] for line in open(words[words.index("-f") + 1]) if line[0] != "#"]
class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join(name + '{gpu="0"} 1\\n' for name in names).encode())
place, _, port = words[words.index("--address") + 1].rpartition(":")
http.server.HTTPServer((place, int(port)), Metrics).serve_forever()
"""
EXPORTER_UNIT = f"""\
[Service]
ExecStart=/usr/bin/dcgm-exporter -f {COUNTERS}
[Install]
WantedBy=multi-user.target
"""


def exporter(version: str) -> Package:
    """Return the exporter of DCGM's metrics (NVIDIA/dcgm-exporter, packaging)."""
    files = {
        "/usr/bin/dcgm-exporter": EXPORTER,
        COUNTERS: "# field, type, help\nDCGM_FI_DEV_GPU_TEMP, gauge, temperature in C\n",
        "/usr/lib/systemd/system/nvidia-dcgm-exporter.service": EXPORTER_UNIT,
    }
    return Package("datacenter-gpu-manager-exporter", f"{version}-1", files=files)


def gdrcopy(version: str, module: str = "gdrdrv-dkms", library: str = "libgdrapi") -> list[Package]:
    """Return GDRCopy's packages (NVIDIA/gdrcopy, packages)."""
    files = {MODULE.replace("nvidia.ko", "gdrdrv.ko"): f"{version}\n"}
    return [
        Package(module, f"{version}-1", files=files),
        Package(library, f"{version}-1"),
    ]


OPENIBD = f"""\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=cp {MODULE.replace("nvidia.ko", "mlx5_core.ko")} /sys/module/mlx5_core/srcversion
[Install]
WantedBy=multi-user.target
"""


def doca(version: str) -> list[Package]:
    """Return DOCA-OFED's packages, with the names that the distribution has too."""
    files = {
        MODULE.replace("nvidia.ko", "mlx5_core.ko"): f"OFED{version}\n",
        "/usr/lib/systemd/system/openibd.service": OPENIBD,
    }
    return [
        Package("doca-ofed", f"{version}-091000", "rdma-core, mlnx-ofed-kernel-dkms"),
        Package("mlnx-ofed-kernel-dkms", f"25.07.OFED.{version}-1", files=files),
        Package("rdma-core", "2507mlnx58-1"),
    ]


def driver(version: str, *, module: bool = True, fabric: str = "") -> Sequence[Package]:
    """Return the packages of a driver, which depend on each other as NVIDIA's do: by ``>=``.

    (forums.developer.nvidia.com, topic 353805, quotes those of cuda-drivers-580.) ``fabric`` is the
    name of Fabric Manager's; without it, that of the Debian family.
    """
    branch = version.partition(".")[0]
    this = f"(>= {version}-1)"
    files = {MODULE: f"{version}\nDual MIT/GPL\n"} if module else {}
    numbered = f"-{branch}" if int(branch) < 590 else ""
    return [
        Package(
            "nvidia-open",
            f"{version}-1",
            f"nvidia-kernel-open-dkms {this}, nvidia-driver-cuda {this}",
        ),
        Package("nvidia-kernel-open-dkms", f"{version}-1", files=files),
        Package("nvidia-driver-cuda", f"{version}-1", f"nvidia-persistenced {this}"),
        Package("nvidia-persistenced", f"{version}-1", service="nvidia-persistenced"),
        Package(
            fabric or f"nvidia-fabricmanager{numbered}",
            f"{version}-1",
            files={FABRIC: "LOG_LEVEL=4\nDAEMONIZE=1\n"},
            service="nvidia-fabricmanager",
            reads=FABRIC,
        ),
        Package(
            "nvidia-imex",
            f"{version}-1",
            files={IMEX: "SERVER_PORT=50000\nLOG_LEVEL=4\n"},
            service="nvidia-imex",
            reads=IMEX,
        ),
    ]


def other(*nccl: str) -> list[Package]:
    """Return the packages of CUDA, DCGM, the container toolkit, and NCCL under these names."""
    return [
        *(
            Package("cuda-toolkit-12-8", f"12.8.{n}-1", files={"/usr/local/cuda-12.8/bin/nvcc": ""})
            for n in range(2)
        ),
        Package("datacenter-gpu-manager-4-cuda12", "4.4.1-1", service="nvidia-dcgm"),
        exporter("4.5.2"),
        Package("nvidia-container-toolkit", "1.17.8-1"),
        *(
            Package(name, version)
            for name in nccl
            for version in ("2.26.2-1+cuda12.8", "2.27.3-1+cuda12.9")
        ),
    ]
