"""Which torch and NCCL this node has. Neither is loaded: their code does not run here."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Dict, List, Optional

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import TorchStack
from hwcheck.contract.reasons import NO_TORCH, of_errno
from hwcheck.node.host.torch_stack import version_in_name
from hwcheck.node.host.tree import Tree, contents

PAYLOAD = os.path.abspath(__file__).rsplit(os.sep, 4)[0]
"""The folder that holds this package."""

ANSWER_LIMIT_S = 30.0
"""An interpreter starts in 0.1 s, and from a cold network file system in seconds."""

CACHED = re.compile(rb"/[^\0]{0,4000}/libnccl\.so\.2(?=\0)")
TEXT_LIMIT = 64

CDI_FOLDERS = ("etc/cdi", "run/cdi")
"""Where specifications lie; /var/run is a link to /run. Of two that define a device the one in the
later folder is taken (Container Device Interface, Device Precedence)."""
CDI_KIND = re.compile(r'\bkind"?: *"?([\w.-]*nvidia\.com/gpu)\b')
CDI_LIBRARY = re.compile(r'"?hostPath"?: *"?(/[^\s",]{1,300}\.so[^\s",/]{0,60})')
CDI_LIBRARIES = 500

LIBRARY_FOLDERS = (
    *("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib"),
    "usr/local/nvidia/toolkit",
)
"""Where packages of distributions put libraries, and where the GPU operator puts the toolkit."""
TOOLS = {
    "container_toolkit": re.compile(r"libnvidia-container\.so\.(\d{1,4}(?:\.\d{1,4}){2})\Z"),
    "dcgm": re.compile(r"libdcgm\.so\.(\d{1,4}(?:\.\d{1,4}){2})\Z"),
}
"""Names of a library that has the version of its package: libnvidia-container1 is released with
the toolkit, and DCGM's packages have libdcgm.so.VERSION (NVIDIA/DCGM,
scripts/verify_package_contents)."""

PROGRAMS = ("usr/bin", "usr/local/bin", "usr/sbin", "bin", "usr/local/nvidia/toolkit")


class SoftwareReader(Tree):
    """The software part of ``node.NodeHost``."""

    answer_limit_s = ANSWER_LIMIT_S

    def system_nccl(self) -> List[str]:
        """Versions of the NCCL that the linker finds; empty without one."""
        # The linker's cache says where the library is. The version is the end of the name of the
        # file behind it, as NVIDIA packages it; that costs one link, and loading it would run code.
        cache = contents(self._path("etc/ld.so.cache")) or b""
        paths = [os.fsdecode(path) for path in CACHED.findall(cache)]
        return sorted(set(filter(None, (version_in_name(self._resolve(path)) for path in paths))))

    def tool_versions(self) -> Dict[str, List[str]]:
        """Versions of NVIDIA's ``container_toolkit`` and ``dcgm`` that are installed, in order."""
        # By the names of files: packages of both families have them, and nothing has to run.
        versions_by_tool: Dict[str, List[str]] = {}
        for folder in LIBRARY_FOLDERS:
            for name in (name for name in self._list(folder) if name.startswith("lib")):
                for tool, pattern in TOOLS.items():
                    match = pattern.match(name)
                    if not match or match.group(1) in versions_by_tool.setdefault(tool, []):
                        continue
                    if self.file_bytes("%s/%s" % (folder, name)):  # not one that was left empty
                        versions_by_tool[tool].append(match.group(1))
        return {
            tool: sorted(versions, key=_numbers)
            for tool, versions in versions_by_tool.items()
            if versions
        }

    def file_bytes(self, path: str) -> Optional[int]:
        """Size of a file behind its links; None: it is not there. Raises CouldNotMeasure."""
        try:
            return os.stat(self._path(path)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            words = "%s: %s" % (path[:200], error.strerror)
            raise CouldNotMeasure(words, of_errno(error.errno)) from None

    def has_program(self, name: str) -> bool:
        """Whether a program is there and not empty, by its path or in the usual folders."""
        paths = [name] if name.startswith("/") else ["%s/%s" % (each, name) for each in PROGRAMS]
        return any(self.file_bytes(path) for path in paths)

    def container_libraries(self) -> Dict[str, List[str]]:
        """Libraries of this host that NVIDIA's CDI specifications give to containers, by file."""
        # Read line by line rather than parsed: the standard library has no YAML.
        by_kind: Dict[str, Dict[str, List[str]]] = {}
        for folder in CDI_FOLDERS:
            of_folder: Dict[str, Dict[str, List[str]]] = {}
            for name in self._list(folder):
                path = "%s/%s" % (folder, name)
                text = self._read(path) if name.endswith((".yaml", ".json")) else ""
                kind = CDI_KIND.search(text)
                if kind:
                    libraries = list(dict.fromkeys(CDI_LIBRARY.findall(text)))[:CDI_LIBRARIES]
                    of_folder.setdefault(kind.group(1), {})["/" + path] = libraries
            by_kind.update(of_folder)
        return {path: names for of_kind in by_kind.values() for path, names in of_kind.items()}

    def torch_stack(self, python: str) -> Optional[TorchStack]:
        """Say which torch this interpreter has (the payload's own where empty), or None.

        Raises CouldNotMeasure where the interpreter does not run.
        """
        # The interpreter runs as it is, whatever the root.
        import subprocess  # here: most visits ask for no torch

        from hwcheck.node.torch_process import BOOT

        python, limit_s = python or sys.executable, self.answer_limit_s
        command = [python, "-c", BOOT % "hwcheck.node.host.torch_stack", PAYLOAD]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s
            )
            answer = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
            stack = TorchStack(str(answer["torch"])[:TEXT_LIMIT], str(answer["nccl"])[:TEXT_LIMIT])
        except OSError as error:
            words = "%s cannot be started: %s" % (python, error.strerror)
            raise CouldNotMeasure(words, NO_TORCH) from None
        except subprocess.TimeoutExpired:
            words = "%s gave no answer within %g s" % (python, limit_s)
            raise CouldNotMeasure(words, NO_TORCH) from None
        except (ValueError, KeyError, TypeError):
            last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise CouldNotMeasure(
                "%s, asked for its torch, exited with code %d: %s"
                % (python, done.returncode, last),
                NO_TORCH,
            ) from None
        return stack if stack.torch else None


def _numbers(version: str) -> List[int]:
    return [int(number) for number in version.split(".")]
