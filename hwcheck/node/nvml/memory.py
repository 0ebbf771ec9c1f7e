"""What NVML says of one GPU's memory: ECC, repairs, size, and the window for its peers."""

from __future__ import annotations

from typing import Optional

from hwcheck.contract.quantities import EccErrors, Mode, RetiredPages, RowRemap
from hwcheck.node.nvml.reader import NoPermission, NotSupported, NvmlReader


class MemoryReader(NvmlReader):
    """The memory half of ``node.Gpu``."""

    def ecc_mode(self) -> Optional[Mode]:
        """Whether ECC is on."""
        try:
            current, pending = self.once("ECC mode", "nvmlDeviceGetEccMode")
        except NotSupported:
            return None
        return Mode(current == 1, pending == 1)

    def ecc_default(self) -> Optional[bool]:
        """Whether the board comes with ECC on."""
        modes = self.optional("default ECC mode", "nvmlDeviceGetDefaultEccMode")
        if modes is None:
            return None
        # Releases of pynvml differ: the mode, or a list of it.
        return bool((modes[0] if isinstance(modes, list) else modes) == 1)

    def ecc_errors(self) -> Optional[EccErrors]:
        """ECC errors; None with ECC off."""
        mode = self.ecc_mode()
        if mode is None or not mode.current:
            return None
        kinds = [
            self._nvml.constant("NVML_MEMORY_ERROR_TYPE_" + kind)
            for kind in ("CORRECTED", "UNCORRECTED")
        ]
        counts = []
        for counter in ("VOLATILE", "AGGREGATE"):
            scope = self._nvml.constant("NVML_%s_ECC" % counter)
            for kind in kinds:
                count = self.unless_mig("ECC errors", "nvmlDeviceGetTotalEccErrors", kind, scope)
                if count is None:
                    return None
                counts.append(int(count))
        return EccErrors(*counts)

    def sram_threshold_exceeded(self) -> Optional[bool]:
        """Whether SRAM errors qualify the board for replacement; None without root too."""
        try:
            status = self.structure(
                "SRAM errors", "nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t"
            )
        except (NotSupported, NoPermission):
            return None
        return bool(status.bThresholdExceeded)

    def row_remap(self) -> Optional[RowRemap]:
        """Remapped memory rows (Ampere and later)."""
        rows = self.unless_mig("remapped rows", "nvmlDeviceGetRemappedRows")
        if rows is None:
            return None
        correctable, uncorrectable, pending, failure = rows
        banks = self.optional("spare rows", "nvmlDeviceGetRowRemapperHistogram")
        exhausted = None if banks is None else int(banks.none)
        return RowRemap(correctable, uncorrectable, bool(pending), bool(failure), exhausted)

    def retired_pages(self) -> Optional[RetiredPages]:
        """Retired memory pages (before Ampere)."""
        pending = self.optional("retired pages", "nvmlDeviceGetRetiredPagesPendingStatus")
        if pending is None:
            return None
        counts = []
        for cause in ("MULTIPLE_SINGLE_BIT_ECC_ERRORS", "DOUBLE_BIT_ECC_ERROR"):
            code = self._nvml.constant("NVML_PAGE_RETIREMENT_CAUSE_" + cause)
            pages = self.optional("retired pages", "nvmlDeviceGetRetiredPages", code)
            if pages is None:
                return None
            counts.append(len(pages))
        return RetiredPages(counts[0], counts[1], bool(pending))

    def memory_total_bytes(self) -> int:
        """Memory of the GPU."""
        return int(self.once("memory", "nvmlDeviceGetMemoryInfo").total)

    def memory_used_bytes(self) -> Optional[int]:
        """Memory in use."""
        memory = self.unless_mig("memory", "nvmlDeviceGetMemoryInfo")
        return None if memory is None else int(memory.used)

    def memory_reserved_bytes(self) -> Optional[int]:
        """Memory in use that the driver and the board keep for themselves."""
        # Drivers before R510 have no second version of the structure.
        try:
            version = self._nvml.constant("nvmlMemory_v2")
        except NotSupported:
            return None  # an older pynvml
        memory = self.optional("memory", "nvmlDeviceGetMemoryInfo", version)
        return None if memory is None else int(memory.reserved)

    def bar1_total_bytes(self) -> Optional[int]:
        """Size of the window through which other PCI devices reach the GPU's memory."""
        window = self.unless_mig("BAR1", "nvmlDeviceGetBAR1MemoryInfo")
        return None if window is None or not window.bar1Total else int(window.bar1Total)
