/* Initialization, the node's own values, and the ways to get hold of a GPU. */
#define _GNU_SOURCE
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"

static atomic_int users; /* nvmlInit counts, nvmlShutdown counts back */

bool initialized(void) { return atomic_load(&users) > 0; }

static nvmlReturn_t begin(const char *function) {
  count_t code;
  nvmlReturn_t result = enter(function);
  if (result != NVML_SUCCESS) return result;
  if (!scenario_refresh()) return NVML_ERROR_DRIVER_NOT_LOADED; /* no scenario: no driver */
  if (scenario_count(NODE, "init_error", &code)) return (nvmlReturn_t)code;
  atomic_fetch_add(&users, 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) { return begin(__func__); }
nvmlReturn_t nvmlInit_v2(void) { return begin(__func__); }
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return (void)flags, begin(__func__); }

nvmlReturn_t nvmlShutdown(void) {
  nvmlReturn_t result = enter_node(__func__);
  if (result == NVML_SUCCESS) atomic_fetch_sub(&users, 1);
  return result;
}

static nvmlReturn_t node_text(const char *function, const char *key, char *out, unsigned size) {
  char text[TEXT_SIZE];
  nvmlReturn_t result = enter_node(function);
  if (result != NVML_SUCCESS) return result;
  if (!scenario_text(NODE, key, text, sizeof text)) return NVML_ERROR_NOT_SUPPORTED;
  return put_text(text, out, size);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
  return node_text(__func__, "driver_version", version, length);
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
  return node_text(__func__, "nvml_version", version, length);
}

static nvmlReturn_t cuda_version(const char *function, int *version) {
  count_t number;
  nvmlReturn_t result = enter_node(function);
  if (result != NVML_SUCCESS) return result;
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_count(NODE, "cuda_driver_version", &number)) return NVML_ERROR_NOT_SUPPORTED;
  *version = (int)number;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
  return cuda_version(__func__, version);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
  return cuda_version(__func__, version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
  char key[KEY_SIZE], text[TEXT_SIZE];
  nvmlReturn_t result = enter_node(__func__);
  if (result != NVML_SUCCESS) return result;
  snprintf(key, sizeof key, "process_name.%u", pid);
  if (!scenario_text(NODE, key, text, sizeof text) &&
      !(pid == (unsigned)getpid() &&
        scenario_text(NODE, "process_name.self", text, sizeof text)))
    return NVML_ERROR_NOT_FOUND;
  return put_text(text, name, length);
}

static nvmlReturn_t count_gpus(const char *function, unsigned *count) {
  nvmlReturn_t result = enter_node(function);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = gpu_count();
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return count_gpus(__func__, count); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) { return count_gpus(__func__, count); }

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

void wait_for_driver(void) {
  pthread_mutex_lock(&driver_lock);
  pthread_mutex_unlock(&driver_lock);
}

/* The first handle of a GPU makes the driver initialize it (nvml.h, nvmlInit_v2), unless
 * persistence mode has done so. The driver holds its API lock the while, and all GPUs wait for it
 * (rm_init_adapter in NVIDIA/open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osapi.c). */
static void initialize_gpu(int gpu) {
  static bool initialized[MAX_GPUS];
  double seconds;
  if (!scenario_number(NODE, "open_s", &seconds)) return;
  pthread_mutex_lock(&driver_lock);
  if (!initialized[gpu] && !scenario_count_or(gpu, "persistence_mode", 0)) wait_s(seconds);
  initialized[gpu] = true;
  pthread_mutex_unlock(&driver_lock);
}

static nvmlReturn_t open_gpu(const char *function, unsigned index, nvmlDevice_t *device) {
  int gpu;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = enter_gpu(function, gpu_handle(index), "handle", &gpu);
  bool opens = scenario_count_or((int)index, "lost", 0) == 2; /* and then answers GPU_IS_LOST */
  if (result == NVML_ERROR_GPU_IS_LOST && opens) result = NVML_SUCCESS;
  if (result != NVML_SUCCESS) return result;
  initialize_gpu((int)index);
  *device = gpu_handle(index);
  return result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
  return open_gpu(__func__, index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  return open_gpu(__func__, index, device);
}

static bool same_address(const char *left, const char *right) {
  unsigned a[4], b[4];
  return sscanf(left, "%x:%x:%x.%x", &a[0], &a[1], &a[2], &a[3]) == 4 &&
         sscanf(right, "%x:%x:%x.%x", &b[0], &b[1], &b[2], &b[3]) == 4 &&
         memcmp(a, b, sizeof a) == 0;
}

static bool same_text(const char *left, const char *right) { return strcmp(left, right) == 0; }

static nvmlReturn_t find_gpu(const char *function, const char *key, const char *wanted,
                             bool (*same)(const char *, const char *), nvmlDevice_t *device) {
  char text[TEXT_SIZE];
  nvmlReturn_t result = enter_node(function);
  if (result != NVML_SUCCESS) return result;
  if (!wanted) return NVML_ERROR_INVALID_ARGUMENT;
  for (unsigned i = 0; i < gpu_count(); i++)
    if (scenario_text((int)i, key, text, sizeof text) && same(text, wanted))
      return open_gpu(function, i, device);
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  return find_gpu(__func__, "uuid", uuid, same_text, device);
}
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
  return find_gpu(__func__, "serial", serial, same_text, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *address, nvmlDevice_t *device) {
  return find_gpu(__func__, "pci_address", address, same_address, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device) {
  return find_gpu(__func__, "pci_address", address, same_address, device);
}
