/* One value per function: the table of quantities. */
#include "scenario.h"

#include <math.h>
#include <stdio.h>

/* function, key of the scenario, factor from its unit to NVML's */
#define UNSIGNED(function, key, scale)                                   \
  nvmlReturn_t function(nvmlDevice_t device, unsigned *out) {            \
    return ask_unsigned(__func__, device, key, scale, out);              \
  }
UNSIGNED(nvmlDeviceGetPowerUsage, "power_w", 1e3)
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit, "power_limit_w", 1e3)
UNSIGNED(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default_w", 1e3)
UNSIGNED(nvmlDeviceGetMinorNumber, "minor_number", 1)
UNSIGNED(nvmlDeviceGetModuleId, "module_id", 1)
UNSIGNED(nvmlDeviceGetBoardId, "board_id", 1)
UNSIGNED(nvmlDeviceGetNumaNodeId, "numa_node", 1)
UNSIGNED(nvmlDeviceGetCurrPcieLinkWidth, "pcie_link_width", 1)
UNSIGNED(nvmlDeviceGetMaxPcieLinkWidth, "pcie_link_width_max", 1)
UNSIGNED(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_link_generation", 1)
UNSIGNED(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_link_generation_max", 1)
UNSIGNED(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_link_generation_max_device", 1)
UNSIGNED(nvmlDeviceGetPcieReplayCounter, "pcie_replays", 1)
UNSIGNED(nvmlDeviceGetNumFans, "fan_speeds_percent.count", 1)
UNSIGNED(nvmlDeviceGetFanSpeed, "fan_speeds_percent.0", 1)
UNSIGNED(nvmlDeviceGetMaxMigDeviceCount, "mig_devices_max", 1)

#define TEXT(function, key)                                              \
  nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned size) { \
    return ask_text(__func__, device, key, out, size);                   \
  }
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_image")

#define MODE(function, key)                                              \
  nvmlReturn_t function(nvmlDevice_t device, nvmlEnableState_t *out) {   \
    return ask_mode(__func__, device, key, out);                         \
  }
MODE(nvmlDeviceGetPersistenceMode, "persistence_mode")
MODE(nvmlDeviceGetDisplayMode, "display_mode")
MODE(nvmlDeviceGetDisplayActive, "display_active")
MODE(nvmlDeviceGetDefaultEccMode, "ecc_default")
MODE(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages.pending")

#define NUMBERED(function, type, key)                                    \
  nvmlReturn_t function(nvmlDevice_t device, type *out) {                \
    unsigned number;                                                     \
    nvmlReturn_t result = ask_unsigned(__func__, device, key, 1, &number); \
    if (result != NVML_SUCCESS) return result;                           \
    if (!out) return NVML_ERROR_INVALID_ARGUMENT;                        \
    *out = (type)number;                                                 \
    return NVML_SUCCESS;                                                 \
  }
NUMBERED(nvmlDeviceGetBrand, nvmlBrandType_t, "brand")
NUMBERED(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, "architecture")
NUMBERED(nvmlDeviceGetComputeMode, nvmlComputeMode_t, "compute_mode")
NUMBERED(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, "virtualization_mode")
NUMBERED(nvmlDeviceGetPerformanceState, nvmlPstates_t, "performance_state")
NUMBERED(nvmlDeviceGetPowerState, nvmlPstates_t, "performance_state")

/* Two values of one key: now and after the next reset, or the least and the most. */
#define PAIR(function, type, first, second, scale)                       \
  nvmlReturn_t function(nvmlDevice_t device, type *one, type *two) {     \
    static const char *const keys[] = {first, second};                   \
    double values[2];                                                    \
    nvmlReturn_t result = ask_numbers(__func__, device, 2, keys, values); \
    if (result != NVML_SUCCESS) return result;                           \
    if (!one || !two) return NVML_ERROR_INVALID_ARGUMENT;                \
    *one = (type)llround(values[0] * scale);                             \
    *two = (type)llround(values[1] * scale);                             \
    return NVML_SUCCESS;                                                 \
  }
PAIR(nvmlDeviceGetEccMode, nvmlEnableState_t, "ecc_mode.current", "ecc_mode.pending", 1)
PAIR(nvmlDeviceGetMigMode, unsigned, "mig_mode.current", "mig_mode.pending", 1)
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, unsigned, "power_limit_min_w",
     "power_limit_max_w", 1e3)
PAIR(nvmlDeviceGetCudaComputeCapability, int, "compute_capability.major",
     "compute_capability.minor", 1)
PAIR(nvmlDeviceGetEncoderUtilization, unsigned, "encoder_utilization_percent",
     "encoder_utilization_percent.period_us", 1)
PAIR(nvmlDeviceGetDecoderUtilization, unsigned, "decoder_utilization_percent",
     "decoder_utilization_percent.period_us", 1)

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *limit) {
  double watts;
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "power_limit_w", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!limit) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_number(gpu, "power_limit_requested_w", &watts) &&
      !scenario_number(gpu, "power_limit_w", &watts))
    return NVML_ERROR_NOT_SUPPORTED;
  *limit = (unsigned)llround(watts * 1e3);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, count_t *millijoules) {
  double joules;
  nvmlReturn_t result = ask_number(__func__, device, "total_energy_j", &joules);
  if (result != NVML_SUCCESS) return result;
  if (!millijoules) return NVML_ERROR_INVALID_ARGUMENT;
  *millijoules = (count_t)(joules * 1e3);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *percent) {
  char key[KEY_SIZE];
  count_t fans, speed;
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "fan_speeds_percent", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!scenario_count(gpu, "fan_speeds_percent.count", &fans)) return NVML_ERROR_NOT_SUPPORTED;
  snprintf(key, sizeof key, "fan_speeds_percent.%u", fan);
  if (!percent || fan >= fans || !scenario_count(gpu, key, &speed))
    return NVML_ERROR_INVALID_ARGUMENT;
  *percent = (unsigned)speed;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object,
                                         char *version, unsigned length) {
  static const char *const keys[] = {"inforom_oem", "inforom_ecc", "inforom_power"};
  if ((unsigned)object >= 3) return NVML_ERROR_INVALID_ARGUMENT;
  return ask_text(__func__, device, keys[object], version, length);
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device) {
  unsigned valid;
  nvmlReturn_t result = ask_unsigned(__func__, device, "inforom_valid", 1, &valid);
  return result != NVML_SUCCESS || valid ? result : NVML_ERROR_CORRUPTED_INFOROM;
}

static const double COUNTED_S = 0.02; /* nvml.h: it counts bytes over an interval of 20 ms */

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                         unsigned *kilobytes_per_second) {
  static const char *const keys[] = {"pcie_tx_kb_per_s", "pcie_rx_kb_per_s"};
  if ((unsigned)counter >= 2) return NVML_ERROR_INVALID_ARGUMENT;
  wait_s(COUNTED_S);
  return ask_unsigned(__func__, device, keys[counter], 1, kilobytes_per_second);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
  static const char *const keys[] = {"utilization_percent", "memory_utilization_percent"};
  double percent[2];
  if (!rates) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = ask_numbers(__func__, device, 2, keys, percent);
  if (result == NVML_SUCCESS)
    *rates = (nvmlUtilization_t){(unsigned)llround(percent[0]), (unsigned)llround(percent[1])};
  return result;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "index", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!index) return NVML_ERROR_INVALID_ARGUMENT;
  *index = (unsigned)gpu;
  return NVML_SUCCESS;
}
