/* What every function does before it answers, and the answers of one value. */
#define _GNU_SOURCE
#include "scenario.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lines.h"

static char handles[MAX_GPUS]; /* a handle is the address of its GPU's place here */

nvmlDevice_t gpu_handle(unsigned index) { return (nvmlDevice_t)(void *)&handles[index]; }

unsigned gpu_count(void) {
  count_t count = scenario_count_or(NODE, "gpus", 0);
  return count < MAX_GPUS ? (unsigned)count : MAX_GPUS;
}

static bool says(int gpu, const char *prefix, const char *name, count_t *value) {
  char key[KEY_SIZE];
  snprintf(key, sizeof key, "%s.%s", prefix, name);
  return scenario_count(gpu, key, value);
}

static void wait_as_told(int gpu, const char *function) {
  count_t value;
  if (says(gpu, "hang", function, &value))
    for (;;) pause();
}

void wait_s(double seconds) {
  struct timespec pause_for = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
  nanosleep(&pause_for, NULL);
}

nvmlReturn_t enter(const char *function) {
  count_t value;
  double milliseconds;
  scenario_refresh();
  if (scenario_number(NODE, "delay_ms", &milliseconds)) wait_s(milliseconds / 1e3);
  wait_as_told(NODE, function);
  if (!driver_has_function(function)) return NVML_ERROR_FUNCTION_NOT_FOUND;
  if (says(NODE, "unsupported", function, &value)) return NVML_ERROR_FUNCTION_NOT_FOUND;
  if (says(NODE, "deprecated", function, &value)) return NVML_ERROR_DEPRECATED;
  return NVML_SUCCESS;
}

nvmlReturn_t enter_node(const char *function) {
  nvmlReturn_t result = enter(function);
  return result != NVML_SUCCESS || initialized() ? result : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t gpu_error(const char *function, int gpu, const char *quantity) {
  char name[KEY_SIZE];
  count_t code;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(quantity, "."), quantity);
  bool fails = says(gpu, "error", function, &code) || says(gpu, "error", name, &code);
  return fails ? (nvmlReturn_t)code : NVML_SUCCESS;
}

nvmlReturn_t enter_gpu(const char *function, nvmlDevice_t device, const char *quantity, int *gpu) {
  count_t code;
  uintptr_t place = (uintptr_t)device - (uintptr_t)handles;
  nvmlReturn_t result = enter_node(function);
  if (result != NVML_SUCCESS) return result;
  if (place >= gpu_count()) return NVML_ERROR_INVALID_ARGUMENT;
  *gpu = (int)place;
  wait_for_driver();
  wait_as_told(*gpu, function);
  if (scenario_count(*gpu, "lost", &code)) return NVML_ERROR_GPU_IS_LOST;
  return gpu_error(function, *gpu, quantity);
}

nvmlReturn_t put_text(const char *text, char *out, unsigned size) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

nvmlReturn_t ask_text(const char *function, nvmlDevice_t device, const char *key, char *out,
                      unsigned size) {
  char text[TEXT_SIZE];
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, key, &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!scenario_text(gpu, key, text, sizeof text)) return NVML_ERROR_NOT_SUPPORTED;
  return put_text(text, out, size);
}

nvmlReturn_t ask_numbers(const char *function, nvmlDevice_t device, size_t count,
                         const char *const *keys, double *outs) {
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, keys[0], &gpu);
  for (size_t i = 0; i < count && result == NVML_SUCCESS; i++) {
    result = gpu_error(function, gpu, keys[i]);
    if (result == NVML_SUCCESS && !live_number(gpu, keys[i], &outs[i]))
      result = NVML_ERROR_NOT_SUPPORTED;
  }
  return result;
}

nvmlReturn_t ask_number(const char *function, nvmlDevice_t device, const char *key, double *out) {
  return ask_numbers(function, device, 1, &key, out);
}

nvmlReturn_t ask_count(const char *function, nvmlDevice_t device, const char *key, count_t *out) {
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, key, &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  return live_count(gpu, key, out) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t ask_unsigned(const char *function, nvmlDevice_t device, const char *key, double scale,
                          unsigned *out) {
  double value;
  nvmlReturn_t result = ask_number(function, device, key, &value);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = (unsigned)llround(value * scale);
  return NVML_SUCCESS;
}

nvmlReturn_t ask_mode(const char *function, nvmlDevice_t device, const char *key,
                      nvmlEnableState_t *out) {
  unsigned value;
  nvmlReturn_t result = ask_unsigned(function, device, key, 1, &value);
  if (result != NVML_SUCCESS) return result;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
