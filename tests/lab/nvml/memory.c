/* Memory: how much, its errors, and what was done about them. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

static nvmlReturn_t gpu_memory(const char *function, nvmlDevice_t device, nvmlMemory_v2_t *out) {
  static const char *const keys[] = {"memory_total_bytes", "memory_used_bytes",
                                     "memory_reserved_bytes"};
  double bytes[3];
  nvmlReturn_t result = ask_numbers(function, device, 3, keys, bytes);
  if (result != NVML_SUCCESS) return result;
  out->total = (count_t)bytes[0];
  out->free = (count_t)(bytes[0] - bytes[1]);
  out->reserved = (count_t)bytes[2];
  out->used = (count_t)(bytes[1] - bytes[2]);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  nvmlMemory_v2_t whole;
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = gpu_memory(__func__, device, &whole);
  if (result == NVML_SUCCESS)
    *memory = (nvmlMemory_t){whole.total, whole.free, whole.used + whole.reserved};
  return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return gpu_memory(__func__, device, memory);
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *window) {
  static const char *const keys[] = {"bar1_total_bytes", "bar1_used_bytes"};
  double bytes[2];
  if (!window) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = ask_numbers(__func__, device, 2, keys, bytes);
  if (result == NVML_SUCCESS)
    *window = (nvmlBAR1Memory_t){(count_t)bytes[0], (count_t)(bytes[0] - bytes[1]),
                                 (count_t)bytes[1]};
  return result;
}

static nvmlReturn_t ecc_count(const char *function, nvmlDevice_t device, const char *place,
                              nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                              count_t *count) {
  static const char *const types[] = {"corrected", "uncorrected"};
  static const char *const counters[] = {"volatile", "aggregate"};
  char key[KEY_SIZE];
  if ((unsigned)type >= 2 || (unsigned)counter >= 2) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(key, sizeof key, "ecc_errors.%s%s_%s", place, counters[counter], types[type]);
  return ask_count(function, device, key, count);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, count_t *count) {
  return ecc_count(__func__, device, "", type, counter, count);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t location, count_t *count) {
  char place[KEY_SIZE];
  if ((unsigned)location >= NVML_MEMORY_LOCATION_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(place, sizeof place, "location%d.", (int)location);
  return ecc_count(__func__, device, place, type, counter, count);
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *out) {
  count_t exceeded;
  int gpu;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != nvmlEccSramErrorStatus_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlReturn_t result = enter_gpu(__func__, device, "sram_threshold_exceeded", &gpu);
  if (result == NVML_SUCCESS) result = gpu_error(__func__, gpu, "sram_errors");
  if (result != NVML_SUCCESS) return result;
  if (!scenario_count(gpu, "sram_threshold_exceeded", &exceeded)) return NVML_ERROR_NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  out->version = nvmlEccSramErrorStatus_v1;
  out->bThresholdExceeded = exceeded != 0;
  scenario_count(gpu, "sram_errors.aggregate_uncorrected_parity", &out->aggregateUncParity);
  scenario_count(gpu, "sram_errors.aggregate_uncorrected_secded", &out->aggregateUncSecDed);
  scenario_count(gpu, "sram_errors.aggregate_corrected", &out->aggregateCor);
  scenario_count(gpu, "sram_errors.volatile_uncorrected_parity", &out->volatileUncParity);
  scenario_count(gpu, "sram_errors.volatile_uncorrected_secded", &out->volatileUncSecDed);
  scenario_count(gpu, "sram_errors.volatile_corrected", &out->volatileCor);
  return NVML_SUCCESS;
}

/* Fill several numbers of one quantity; all must be given. */
static nvmlReturn_t several(const char *function, nvmlDevice_t device, const char *const *keys,
                            unsigned *const *outs, size_t count) {
  double values[5];
  nvmlReturn_t result = ask_numbers(function, device, count, keys, values);
  for (size_t i = 0; i < count && result == NVML_SUCCESS; i++)
    if (outs[i]) {
      *outs[i] = (unsigned)values[i];
    } else {
      result = NVML_ERROR_INVALID_ARGUMENT;
    }
  return result;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                       unsigned *uncorrectable, unsigned *pending,
                                       unsigned *failure) {
  static const char *const keys[] = {"row_remap.correctable", "row_remap.uncorrectable",
                                     "row_remap.pending", "row_remap.failure"};
  unsigned *const outs[] = {correctable, uncorrectable, pending, failure};
  return several(__func__, device, keys, outs, 4);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                               nvmlRowRemapperHistogramValues_t *banks) {
  static const char *const keys[] = {"row_remap.histogram.max", "row_remap.histogram.high",
                                     "row_remap.histogram.partial", "row_remap.histogram.low",
                                     "row_remap.histogram.none"};
  if (!banks) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned *const outs[] = {&banks->max, &banks->high, &banks->partial, &banks->low,
                            &banks->none};
  return several(__func__, device, keys, outs, 5);
}

static nvmlReturn_t retired(const char *function, nvmlDevice_t device,
                            nvmlPageRetirementCause_t cause, unsigned *count, count_t *addresses,
                            count_t *timestamps) {
  static const char *const keys[] = {"retired_pages.single_bit", "retired_pages.double_bit"};
  count_t pages;
  if ((unsigned)cause >= 2 || !count) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = ask_count(function, device, keys[cause], &pages);
  if (result != NVML_SUCCESS) return result;
  unsigned room = *count;
  *count = (unsigned)pages;
  if (room < pages) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (count_t i = 0; i < pages; i++) {
    if (addresses) addresses[i] = i << 12; /* one page of 4 KiB after the other */
    if (timestamps) timestamps[i] = 0;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                       unsigned *count, count_t *addresses) {
  return retired(__func__, device, cause, count, addresses, NULL);
}
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                          unsigned *count, count_t *addresses,
                                          count_t *timestamps) {
  return retired(__func__, device, cause, count, addresses, timestamps);
}
