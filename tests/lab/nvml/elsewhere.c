/* What other tools ask and this library has none of: MIG devices, and driver models of Windows. */
#include "scenario.h"

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *answer) {
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "mig_mode", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!answer) return NVML_ERROR_INVALID_ARGUMENT;
  *answer = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                 nvmlDevice_t *instance) {
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "mig_mode", &gpu);
  if (result != NVML_SUCCESS) return result;
  count_t most = scenario_count_or(gpu, "mig_devices_max", 0);
  return instance && index < most ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

/* Questions that a handle of a whole GPU does not answer. */
#define OF_INSTANCE(function, type)                                     \
  nvmlReturn_t function(nvmlDevice_t device, type *out) {               \
    int gpu;                                                            \
    nvmlReturn_t result = enter_gpu(__func__, device, "mig_mode", &gpu); \
    (void)out;                                                          \
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;  \
  }
OF_INSTANCE(nvmlDeviceGetGpuInstanceId, unsigned)
OF_INSTANCE(nvmlDeviceGetComputeInstanceId, unsigned)
OF_INSTANCE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t)

#define OF_WINDOWS(function)                                                                   \
  nvmlReturn_t function(nvmlDevice_t device, nvmlDriverModel_t *current,                       \
                        nvmlDriverModel_t *pending) {                                          \
    int gpu;                                                                                   \
    nvmlReturn_t result = enter_gpu(__func__, device, "driver_model", &gpu);                   \
    (void)current, (void)pending;                                                              \
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;                         \
  }
OF_WINDOWS(nvmlDeviceGetDriverModel)
OF_WINDOWS(nvmlDeviceGetDriverModel_v2)
