/* Temperatures, clocks, and what holds the clocks down. */
#include "scenario.h"

#include <math.h>
#include <stdio.h>

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned *celsius) {
  if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  return ask_unsigned(__func__, device, "temperature_c", 1, celsius);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
  double celsius;
  if (!temperature) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (temperature->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = ask_number(__func__, device, "temperature_c", &celsius);
  if (result == NVML_SUCCESS) temperature->temperature = (int)lround(celsius);
  return result;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t kind,
                                               unsigned *celsius) {
  static const char *const keys[] = {
      [NVML_TEMPERATURE_THRESHOLD_SHUTDOWN] = "temperature_shutdown_c",
      [NVML_TEMPERATURE_THRESHOLD_SLOWDOWN] = "temperature_slowdown_c",
      [NVML_TEMPERATURE_THRESHOLD_MEM_MAX] = "memory_temperature_max_c",
      [NVML_TEMPERATURE_THRESHOLD_GPU_MAX] = "temperature_max_operating_c",
  };
  if ((unsigned)kind >= NVML_TEMPERATURE_THRESHOLD_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if ((unsigned)kind >= sizeof keys / sizeof *keys) return NVML_ERROR_NOT_SUPPORTED;
  return ask_unsigned(__func__, device, keys[kind], 1, celsius);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin) {
  double celsius;
  if (!margin) return NVML_ERROR_INVALID_ARGUMENT;
  if (margin->version != nvmlMarginTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlReturn_t result = ask_number(__func__, device, "thermal_margin_c", &celsius);
  if (result == NVML_SUCCESS) margin->marginTemperature = (int)lround(celsius);
  return result;
}

static nvmlReturn_t clock_of(const char *function, nvmlDevice_t device, nvmlClockType_t type,
                             const char *prefix, unsigned *mhz) {
  static const char *const domains[] = {
      [NVML_CLOCK_GRAPHICS] = "graphics",
      [NVML_CLOCK_SM] = "sm",
      [NVML_CLOCK_MEM] = "memory",
      [NVML_CLOCK_VIDEO] = "video",
  };
  char key[KEY_SIZE];
  if ((unsigned)type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(key, sizeof key, "clocks.%s%s_mhz", prefix, domains[type]);
  return ask_unsigned(function, device, key, 1, mhz);
}

#define CLOCK(function, prefix)                                                      \
  nvmlReturn_t function(nvmlDevice_t device, nvmlClockType_t type, unsigned *mhz) {  \
    return clock_of(__func__, device, type, prefix, mhz);                            \
  }
CLOCK(nvmlDeviceGetClockInfo, "")
CLOCK(nvmlDeviceGetMaxClockInfo, "max_")
CLOCK(nvmlDeviceGetApplicationsClock, "application_")
CLOCK(nvmlDeviceGetDefaultApplicationsClock, "default_application_")

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
                                unsigned *mhz) {
  static const char *const prefixes[] = {
      [NVML_CLOCK_ID_CURRENT] = "",
      [NVML_CLOCK_ID_APP_CLOCK_TARGET] = "application_",
      [NVML_CLOCK_ID_APP_CLOCK_DEFAULT] = "default_application_",
      [NVML_CLOCK_ID_CUSTOMER_BOOST_MAX] = "max_",
  };
  if ((unsigned)id >= NVML_CLOCK_ID_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  return clock_of(__func__, device, type, prefixes[id], mhz);
}

static nvmlReturn_t reasons(const char *function, nvmlDevice_t device, count_t *bits) {
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, "clock_event_reasons", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!bits) return NVML_ERROR_INVALID_ARGUMENT;
  return live_reasons(gpu, bits) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, count_t *bits) {
  return reasons(__func__, device, bits);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, count_t *bits) {
  return reasons(__func__, device, bits);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, count_t *bits) {
  return ask_count(__func__, device, "supported_clock_event_reasons", bits);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, count_t *bits) {
  return ask_count(__func__, device, "supported_clock_event_reasons", bits);
}
