/* nvmlDeviceGetFieldValues: many values in one call, each with its own return code. */
#define _GNU_SOURCE
#include "scenario.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

typedef struct {
  unsigned id;
  const char *key; /* below the GPU, or below the link that the caller names as the scope */
  enum { OF_GPU, OF_GPU_INT, OF_LINK, OF_LINK_N } of; /* an unsigned int, else a long long */
  unsigned link; /* of OF_LINK_N */
  double scale;
} field_t;

#define GPU(id, key, scale) {NVML_FI_DEV_##id, key, OF_GPU, 0, scale}
#define GPU_INT(id, key, scale) {NVML_FI_DEV_##id, key, OF_GPU_INT, 0, scale} /* as an H200 says */
#define LIMIT(id, key) {NVML_FI_DEV_TEMPERATURE_##id##_TLIMIT, key, OF_GPU, 0, 1}
#define LINK(id, key, scale) {NVML_FI_DEV_NVLINK_##id, key, OF_LINK, 0, scale}
#define SPEED(n) {NVML_FI_DEV_NVLINK_SPEED_MBPS_L##n, "speed_gbps", OF_LINK_N, n, 1e3}

static const field_t fields[] = {
    GPU_INT(MEMORY_TEMP, "memory_temperature_c", 1),
    LIMIT(SHUTDOWN, "temperature_limits.shutdown_c"),
    LIMIT(SLOWDOWN, "temperature_limits.slowdown_c"),
    LIMIT(MEM_MAX, "temperature_limits.memory_max_c"),
    LIMIT(GPU_MAX, "temperature_limits.max_operating_c"),
    GPU(TOTAL_ENERGY_CONSUMPTION, "total_energy_j", 1e3),
    GPU(ENERGY, "total_energy_j", 1e3),
    GPU_INT(POWER_INSTANT, "power_instant_w", 1e3),
    GPU_INT(POWER_AVERAGE, "power_w", 1e3),
    GPU(POWER_MIN_LIMIT, "power_limit_min_w", 1e3),
    GPU(POWER_MAX_LIMIT, "power_limit_max_w", 1e3),
    GPU(POWER_DEFAULT_LIMIT, "power_limit_default_w", 1e3),
    GPU(POWER_CURRENT_LIMIT, "power_limit_w", 1e3),
    GPU(ECC_CURRENT, "ecc_mode.current", 1),
    GPU(ECC_PENDING, "ecc_mode.pending", 1),
    GPU(ECC_SBE_VOL_TOTAL, "ecc_errors.volatile_corrected", 1),
    GPU(ECC_DBE_VOL_TOTAL, "ecc_errors.volatile_uncorrected", 1),
    GPU(ECC_SBE_AGG_TOTAL, "ecc_errors.aggregate_corrected", 1),
    GPU(ECC_DBE_AGG_TOTAL, "ecc_errors.aggregate_uncorrected", 1),
    GPU(RETIRED_SBE, "retired_pages.single_bit", 1),
    GPU(RETIRED_DBE, "retired_pages.double_bit", 1),
    GPU(RETIRED_PENDING, "retired_pages.pending", 1),
    GPU(REMAPPED_COR, "row_remap.correctable", 1),
    GPU(REMAPPED_UNC, "row_remap.uncorrectable", 1),
    GPU(REMAPPED_PENDING, "row_remap.pending", 1),
    GPU(REMAPPED_FAILURE, "row_remap.failure", 1),
    GPU(PCIE_REPLAY_COUNTER, "pcie_replays", 1),
    GPU_INT(GET_GPU_RECOVERY_ACTION, "recovery_action", 1),
    GPU(NVLINK_LINK_COUNT, "nvlinks.count", 1),
    GPU(NVLINK_SPEED_MBPS_COMMON, "nvlink_speed_common_gbps", 1e3),
    SPEED(0), SPEED(1), SPEED(2), SPEED(3), SPEED(4), SPEED(5),
    SPEED(6), SPEED(7), SPEED(8), SPEED(9), SPEED(10), SPEED(11),
    LINK(GET_SPEED, "speed_gbps", 1e3),
    LINK(GET_STATE, "active", 1),
    LINK(GET_VERSION, "version", 1),
    LINK(ERROR_DL_REPLAY, "errors.replay", 1),
    LINK(ERROR_DL_RECOVERY, "errors.recovery", 1),
    LINK(ERROR_DL_CRC, "errors.crc", 1),
    LINK(COUNT_LINK_RECOVERY_FAILED_EVENTS, "errors.recovery_failed", 1),
    LINK(COUNT_MALFORMED_PACKET_ERRORS, "errors.malformed_packet", 1),
    LINK(COUNT_BUFFER_OVERRUN_ERRORS, "errors.buffer_overrun", 1),
    LINK(COUNT_SYMBOL_ERRORS, "errors.symbol", 1),
    LINK(COUNT_EFFECTIVE_ERRORS, "errors.effective", 1),
    LINK(COUNT_SYMBOL_BER, "rates.symbol", 1),
    LINK(COUNT_EFFECTIVE_BER, "rates.effective", 1),
};

static const field_t *find(unsigned id) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].id == id) return &fields[i];
  return NULL;
}

static nvmlReturn_t read_field(const char *function, int gpu, nvmlFieldValue_t *value) {
  const field_t *field = find(value->fieldId);
  char key[KEY_SIZE];
  double number;
  if (!field || !driver_has_field(value->fieldId)) return NVML_ERROR_NOT_SUPPORTED;
  if (field->of == OF_GPU || field->of == OF_GPU_INT) {
    snprintf(key, sizeof key, "%s", field->key);
  } else {
    unsigned link = field->of == OF_LINK ? value->scopeId : field->link;
    snprintf(key, sizeof key, "nvlinks.%u.%s", link, field->key);
  }
  nvmlReturn_t result = gpu_error(function, gpu, key);
  if (result != NVML_SUCCESS) return result;
  if (!live_number(gpu, key, &number)) return NVML_ERROR_NOT_SUPPORTED;
  if (number < 0) { /* only the limits of a temperature are */
    value->valueType = NVML_VALUE_TYPE_SIGNED_INT;
    value->value.siVal = (int)lround(number);
    return NVML_SUCCESS;
  }
  /* A half goes down: a link of 14.0625 GB/s says 14062 MB/s. */
  count_t whole = (count_t)llround(number * field->scale - 1e-6);
  if (field->of == OF_GPU_INT) {
    value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    value->value.uiVal = (unsigned)whole;
  } else {
    value->value.ullVal = whole;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "field_values", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (count <= 0 || !values) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < count; i++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    values[i].timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
    values[i].latencyUsec = 0;
    values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    values[i].nvmlReturn = read_field(__func__, gpu, &values[i]);
  }
  return NVML_SUCCESS;
}
