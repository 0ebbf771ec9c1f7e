/* Who is on the GPU. Three versions of each function differ in their structure only. */
#define _GNU_SOURCE
#include "scenario.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NO_INSTANCE = -1 }; /* of MIG */

static bool process_number(int gpu, unsigned place, const char *name, count_t *out) {
  char key[KEY_SIZE];
  snprintf(key, sizeof key, "processes.%u.%s", place, name);
  return scenario_count(gpu, key, out);
}

static unsigned process_id(int gpu, unsigned place) {
  count_t pid = 0;
  process_number(gpu, place, "pid", &pid);
  return pid ? (unsigned)pid : (unsigned)getpid(); /* 0: whoever asks */
}

static bool is_kind(int gpu, unsigned place, const char *kind) {
  char key[KEY_SIZE], text[TEXT_SIZE];
  snprintf(key, sizeof key, "processes.%u.kind", place);
  return scenario_text(gpu, key, text, sizeof text) && strcmp(text, kind) == 0;
}

/* Tell how many there are; then, where there is room, put each. */
static nvmlReturn_t list(const char *function, nvmlDevice_t device, const char *kind,
                         unsigned *count, void *infos,
                         void (*put)(void *, unsigned, unsigned, count_t)) {
  count_t all;
  int gpu;
  nvmlReturn_t result = enter_gpu(function, device, "processes", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_count(gpu, "processes.count", &all)) return NVML_ERROR_NOT_SUPPORTED;
  unsigned room = infos ? *count : 0, found = 0;
  for (unsigned i = 0; i < all; i++) {
    if (!is_kind(gpu, i, kind)) continue;
    count_t memory = (count_t)NVML_VALUE_NOT_AVAILABLE;
    process_number(gpu, i, "memory_bytes", &memory);
    if (found < room) put(infos, found, process_id(gpu, i), memory);
    found++;
  }
  *count = found;
  return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static void put_v1(void *infos, unsigned place, unsigned pid, count_t memory) {
  ((nvmlProcessInfo_v1_t *)infos)[place] = (nvmlProcessInfo_v1_t){pid, memory};
}
static void put_v2(void *infos, unsigned place, unsigned pid, count_t memory) {
  ((nvmlProcessInfo_v2_t *)infos)[place] =
      (nvmlProcessInfo_v2_t){pid, memory, (unsigned)NO_INSTANCE, (unsigned)NO_INSTANCE};
}
static void put_v3(void *infos, unsigned place, unsigned pid, count_t memory) {
  ((nvmlProcessInfo_t *)infos)[place] =
      (nvmlProcessInfo_t){pid, memory, (unsigned)NO_INSTANCE, (unsigned)NO_INSTANCE};
}

#define PROCESSES(function, kind, type, put)                                             \
  nvmlReturn_t function(nvmlDevice_t device, unsigned *count, type *infos) {             \
    return list(__func__, device, kind, count, infos, put);                              \
  }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", nvmlProcessInfo_v1_t, put_v1)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute", nvmlProcessInfo_v2_t, put_v2)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute", nvmlProcessInfo_t, put_v3)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", nvmlProcessInfo_v1_t, put_v1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics", nvmlProcessInfo_v2_t, put_v2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", nvmlProcessInfo_t, put_v3)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, "mps", nvmlProcessInfo_v1_t, put_v1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps", nvmlProcessInfo_v2_t, put_v2)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", nvmlProcessInfo_t, put_v3)

static bool put_sample(int gpu, unsigned place, nvmlProcessUtilizationSample_t *sample) {
  static const char *const names[] = {"sm_percent", "memory_percent", "encoder_percent",
                                      "decoder_percent"};
  count_t values[4] = {0};
  bool given = false;
  for (unsigned i = 0; i < 4; i++) given |= process_number(gpu, place, names[i], &values[i]);
  if (!given) return false;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  count_t time_us = (count_t)now.tv_sec * 1000000 + (count_t)now.tv_nsec / 1000;
  *sample = (nvmlProcessUtilizationSample_t){
      process_id(gpu, place), time_us,
      (unsigned)values[0], (unsigned)values[1], (unsigned)values[2], (unsigned)values[3]};
  return true;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *samples,
                                             unsigned *count, count_t last_seen_us) {
  nvmlProcessUtilizationSample_t sample;
  count_t all;
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "processes", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_count(gpu, "processes.count", &all)) return NVML_ERROR_NOT_SUPPORTED;
  unsigned room = samples ? *count : 0, found = 0;
  for (unsigned i = 0; i < all; i++) {
    if (!put_sample(gpu, i, &sample) || sample.timeStamp <= last_seen_us) continue;
    if (found < room) samples[found] = sample;
    found++;
  }
  *count = found;
  if (!found) return NVML_ERROR_NOT_FOUND;
  return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
