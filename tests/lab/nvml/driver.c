/* What each driver generation has: functions, fields, links, and versions of a structure.
 *
 * A generation is the number before the first dot of driver_version; without that key the library
 * is the newest. What is there is what NVIDIA's own nvml.h of that generation declares: the
 * packages nvidia-nvml-dev-cu11 11.7.91 (515), nvidia-nvml-dev-cu12 12.0.140 (525), 12.2.140
 * (535), 12.4.127 (550), 12.8.90 (570), 12.9.79 (575) and nvidia-nvml-dev 13.0.87 (580); for 470
 * the functions of nvidia-ml-py 11.470.66. What 470 lacks came with 495 to 515. */
#include "scenario.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { AFTER_470 = 495 };

static const struct {
  const char *function;
  unsigned since;
} functions[] = {
    {"nvmlDeviceGetComputeRunningProcesses_v3", AFTER_470},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", AFTER_470},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", AFTER_470},
    {"nvmlDeviceGetDefaultEccMode", AFTER_470},
    {"nvmlDeviceGetMemoryInfo_v2", AFTER_470},
    {"nvmlDeviceGetNumFans", AFTER_470},
    {"nvmlDeviceGetGpuFabricInfo", 525},
    {"nvmlDeviceGetGpuMaxPcieLinkGeneration", 525},
    {"nvmlDeviceGetCurrentClocksEventReasons", 535},
    {"nvmlDeviceGetSupportedClocksEventReasons", 535},
    {"nvmlDeviceGetModuleId", 535},
    {"nvmlDeviceGetGpuFabricInfoV", 550},
    {"nvmlDeviceGetNumaNodeId", 550},
    {"nvmlDeviceGetSramEccErrorStatus", 550},
    {"nvmlDeviceGetDriverModel_v2", 570},
    {"nvmlDeviceGetMarginTemperature", 570},
    {"nvmlDeviceGetPlatformInfo", 570},
    {"nvmlDeviceGetTemperatureV", 570},
};

static const struct {
  unsigned since, fields, links; /* NVML_FI_MAX and NVML_NVLINK_MAX_LINKS */
} sizes[] = {
    {580, 274, 18}, {570, 269, 18}, {550, 200, 18}, {535, 197, 18}, {525, 170, 18}, {0, 161, 12},
};

static unsigned generation(void) {
  char version[TEXT_SIZE];
  bool given = scenario_text(NODE, "driver_version", version, sizeof version);
  return given ? (unsigned)strtoul(version, NULL, 10) : UINT_MAX;
}

static size_t size_of_generation(void) {
  size_t place = 0;
  while (sizes[place].since > generation()) place++;
  return place;
}

bool driver_has_function(const char *name) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (strcmp(functions[i].function, name) == 0) return functions[i].since <= generation();
  return true;
}

bool driver_has_field(unsigned id) {
  return generation() == UINT_MAX || id < sizes[size_of_generation()].fields;
}

bool driver_has_link(unsigned link) {
  return generation() == UINT_MAX || link < sizes[size_of_generation()].links;
}

unsigned driver_fabric_version(void) {
  return generation() >= 580 ? 3 : 2; /* 12.9.79 has no nvmlGpuFabricInfo_v3 */
}
