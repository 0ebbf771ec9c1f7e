/* How the GPUs lie to each other and to the CPUs. */
#include "scenario.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nvmlReturn_t enter_pair(const char *function, nvmlDevice_t one, nvmlDevice_t other,
                               const char *quantity, char *pair) {
  int first, second;
  nvmlReturn_t result = enter_gpu(function, one, quantity, &first);
  if (result == NVML_SUCCESS) result = enter_gpu(function, other, quantity, &second);
  if (result != NVML_SUCCESS) return result;
  if (first == second) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(pair, KEY_SIZE, "%s.%d.%d", quantity, first, second);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 nvmlGpuTopologyLevel_t *level) {
  char pair[KEY_SIZE];
  count_t value;
  nvmlReturn_t result = enter_pair(__func__, one, other, "topology", pair);
  if (result != NVML_SUCCESS) return result;
  if (!level) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_count(NODE, pair, &value)) return NVML_ERROR_NOT_SUPPORTED;
  *level = (nvmlGpuTopologyLevel_t)value;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
                                    nvmlGpuP2PCapsIndex_t capability,
                                    nvmlGpuP2PStatus_t *status) {
  static const char *const names[] = {"read", "write", "nvlink", "atomics", "pci"};
  char pair[KEY_SIZE], key[KEY_SIZE + 16];
  count_t value;
  if ((unsigned)capability >= sizeof names / sizeof *names || !status)
    return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = enter_pair(__func__, one, other, "p2p", pair);
  if (result != NVML_SUCCESS) return result;
  snprintf(key, sizeof key, "%s.%s", pair, names[capability]);
  if (!scenario_count(NODE, key, &value)) return NVML_ERROR_NOT_SUPPORTED;
  *status = (nvmlGpuP2PStatus_t)value;
  return NVML_SUCCESS;
}

/* Set the bits that a list such as 0-47,96-143 names; what does not fit is left out. */
static void put_list(const char *list, unsigned words, unsigned long *bits) {
  const unsigned width = sizeof *bits * CHAR_BIT;
  memset(bits, 0, words * sizeof *bits);
  while (*list) {
    char *end;
    unsigned long first = strtoul(list, &end, 10), last = first;
    if (end == list) return;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    for (unsigned long bit = first; bit <= last && bit / width < words; bit++)
      bits[bit / width] |= 1UL << bit % width;
    list = *end == ',' ? end + 1 : end;
  }
}

static nvmlReturn_t affinity(const char *function, nvmlDevice_t device, const char *key,
                             unsigned words, unsigned long *bits) {
  char list[TEXT_SIZE];
  if (!bits || words == 0) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = ask_text(function, device, key, list, sizeof list);
  if (result == NVML_SUCCESS) put_list(list, words, bits);
  return result;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *cpus) {
  return affinity(__func__, device, "cpu_affinity", words, cpus);
}
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words,
                                                 unsigned long *cpus, nvmlAffinityScope_t scope) {
  return (void)scope, affinity(__func__, device, "cpu_affinity", words, cpus);
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words,
                                         unsigned long *nodes, nvmlAffinityScope_t scope) {
  return (void)scope, affinity(__func__, device, "memory_affinity", words, nodes);
}
