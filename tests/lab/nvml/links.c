/* PCI addresses, NVLinks, and the NVSwitch fabric. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

void put_pci_address(const char *address, nvmlPciInfo_t *out) {
  unsigned function;
  if (sscanf(address, "%x:%x:%x.%u", &out->domain, &out->bus, &out->device, &function) == 4) {
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.%u", out->domain, out->bus & 0xff,
             out->device & 0x1f, function & 7);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.%u", out->domain & 0xffff,
             out->bus & 0xff, out->device & 0x1f, function & 7);
  } else { /* a driver that says something else: so it is handed on */
    snprintf(out->busId, sizeof out->busId, "%s", address);
  }
}

static nvmlReturn_t pci_info(const char *function, nvmlDevice_t device, nvmlPciInfo_t *out) {
  char address[TEXT_SIZE];
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, "pci_address", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_text(gpu, "pci_address", address, sizeof address)) return NVML_ERROR_NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  put_pci_address(address, out);
  out->pciDeviceId = (unsigned)scenario_count_or(gpu, "device_id", 0);
  out->pciSubSystemId = (unsigned)scenario_count_or(gpu, "subsystem_id", 0);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *out) {
  return pci_info(__func__, device, out);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *out) {
  return pci_info(__func__, device, out);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out) {
  return pci_info(__func__, device, out);
}

/* Whether the GPU has this link: a link that it lacks is an invalid argument. */
static nvmlReturn_t enter_link(const char *function, nvmlDevice_t device, unsigned link,
                               const char *name, int *gpu, char *key) {
  count_t links;
  nvmlReturn_t result = enter_gpu(function, device, "nvlinks", gpu);
  if (result != NVML_SUCCESS) return result;
  if (!scenario_count(*gpu, "nvlinks.count", &links)) return NVML_ERROR_NOT_SUPPORTED;
  if (link >= links || !driver_has_link(link)) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(key, KEY_SIZE, "nvlinks.%u.%s", link, name);
  return NVML_SUCCESS;
}

static nvmlReturn_t link_count(const char *function, nvmlDevice_t device, unsigned link,
                               const char *name, count_t *out) {
  char key[KEY_SIZE];
  int gpu;
  nvmlReturn_t result = enter_link(function, device, link, name, &gpu, key);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  return scenario_count(gpu, key, out) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

#define LINK(function, type, key)                                                  \
  nvmlReturn_t function(nvmlDevice_t device, unsigned link, type *out) {           \
    count_t value;                                                                 \
    nvmlReturn_t result = link_count(__func__, device, link, key, &value);         \
    if (result == NVML_SUCCESS && !out) result = NVML_ERROR_INVALID_ARGUMENT;      \
    if (result == NVML_SUCCESS) *out = (type)value;                                \
    return result;                                                                 \
  }
LINK(nvmlDeviceGetNvLinkState, nvmlEnableState_t, "active")
LINK(nvmlDeviceGetNvLinkVersion, unsigned, "version")
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlIntNvLinkDeviceType_t, "remote_type")

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link,
                                           nvmlNvLinkCapability_t capability, unsigned *out) {
  count_t bits;
  if ((unsigned)capability >= NVML_NVLINK_CAP_COUNT || !out) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = link_count(__func__, device, link, "capabilities", &bits);
  if (result == NVML_SUCCESS) *out = bits >> capability & 1;
  return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                             nvmlNvLinkErrorCounter_t counter, count_t *out) {
  static const char *const keys[] = {
      [NVML_NVLINK_ERROR_DL_REPLAY] = "error_counters.replay",
      [NVML_NVLINK_ERROR_DL_RECOVERY] = "error_counters.recovery",
      [NVML_NVLINK_ERROR_DL_CRC_FLIT] = "error_counters.crc_flit",
      [NVML_NVLINK_ERROR_DL_CRC_DATA] = "error_counters.crc_data",
  };
  if ((unsigned)counter >= sizeof keys / sizeof *keys) return NVML_ERROR_INVALID_ARGUMENT;
  return link_count(__func__, device, link, keys[counter], out);
}

static nvmlReturn_t remote(const char *function, nvmlDevice_t device, unsigned link,
                           nvmlPciInfo_t *out) {
  char key[KEY_SIZE], address[TEXT_SIZE];
  int gpu;
  nvmlReturn_t result = enter_link(function, device, link, "remote_address", &gpu, key);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_text(gpu, key, address, sizeof address)) return NVML_ERROR_NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  put_pci_address(address, out);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link,
                                              nvmlPciInfo_t *out) {
  return remote(__func__, device, link, out);
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t *out) {
  return remote(__func__, device, link, out);
}

static nvmlReturn_t fabric(const char *function, nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *out) {
  count_t state;
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, "fabric", &gpu);
  if (result != NVML_SUCCESS) return result;
  bool supported = scenario_count(gpu, "fabric.state", &state);
  count_t newest = scenario_count_or(gpu, "fabric.version", driver_fabric_version());
  bool version_first = scenario_count_or(NODE, "version_checked_first", 1);
  if (!supported && !version_first) return NVML_ERROR_NOT_SUPPORTED;
  if (out->version >> 24 > newest) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (!supported) return NVML_ERROR_NOT_SUPPORTED;
  memset(out->clusterUuid, 0, sizeof out->clusterUuid);
  char uuid[TEXT_SIZE] = "";
  scenario_text(gpu, "fabric.cluster_uuid", uuid, sizeof uuid);
  for (unsigned i = 0, byte; i < sizeof out->clusterUuid; i++)
    if (sscanf(uuid + 2 * i, "%2x", &byte) == 1) {
      out->clusterUuid[i] = (unsigned char)byte;
    } else {
      break;
    }
  out->state = (nvmlGpuFabricState_t)state;
  out->status = (nvmlReturn_t)scenario_count_or(gpu, "fabric.status", NVML_SUCCESS);
  out->cliqueId = (unsigned)scenario_count_or(gpu, "fabric.clique_id", 0);
  out->healthMask = (unsigned)scenario_count_or(gpu, "fabric.health_mask", 0);
  out->healthSummary = (unsigned char)scenario_count_or(gpu, "fabric.health_summary", 0);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *out) {
  nvmlGpuFabricInfo_v3_t whole = {0};
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = fabric(__func__, device, &whole);
  if (result != NVML_SUCCESS) return result;
  memcpy(out->clusterUuid, whole.clusterUuid, sizeof out->clusterUuid);
  out->status = whole.status;
  out->cliqueId = whole.cliqueId;
  out->state = whole.state;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != nvmlGpuFabricInfo_v3 && out->version != nvmlGpuFabricInfo_v2)
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlGpuFabricInfo_v3_t whole = {.version = out->version};
  nvmlReturn_t result = fabric(__func__, device, &whole);
  size_t asked = out->version & 0xffffff; /* the caller's structure may be the shorter one */
  if (result == NVML_SUCCESS) memcpy(out, &whole, asked);
  return result;
}

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *out) {
  count_t slot;
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "platform", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != nvmlPlatformInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (!scenario_count(gpu, "platform.slot", &slot)) return NVML_ERROR_NOT_SUPPORTED;
  char serial[TEXT_SIZE] = "";
  scenario_text(gpu, "platform.chassis_serial", serial, sizeof serial);
  *out = (nvmlPlatformInfo_t){.version = out->version, .slotNumber = (unsigned char)slot};
  for (size_t i = 0; i < sizeof out->chassisSerialNumber && serial[i]; i++)
    out->chassisSerialNumber[i] = (unsigned char)serial[i];
  out->trayIndex = (unsigned char)scenario_count_or(gpu, "platform.tray", 0);
  out->hostId = (unsigned char)scenario_count_or(gpu, "platform.host", 1);
  out->moduleId = (unsigned char)scenario_count_or(gpu, "module_id", 1);
  return NVML_SUCCESS;
}
