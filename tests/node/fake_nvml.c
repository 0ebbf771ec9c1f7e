/* A libnvidia-ml.so.1 of two GPUs, for the tests: exactly the functions that the payload calls.
 * GPU 0 has what data center boards have, GPU 1 lacks some of it and has what they lack.
 *
 * FAKE_NVML names one deviation:
 *   not_loaded   nvmlInit says that there is no driver
 *   code_4711    nvmlInit returns an error that only nvmlErrorString knows
 *   lost         GPU 1 cannot be opened
 *   no_power     GPU 1 has no power limit
 *   margin       GPU 1 has a thermal margin in place of a slowdown threshold
 *   no_lanes     GPU 1 reports a maximum link width of 0
 *   bad_address  GPU 1 reports a PCI address that is none
 *   no_ecc       GPU 1 has no ECC and replaces no rows
 *   mig          MIG is on for GPU 1, and NVML refuses what it then refuses
 *   corrupted    the infoROM of GPU 1 is
 *   denied       the caller is not root
 *   fabric_v2    the driver knows no newer structure
 *   blackwell    NVLinks have the error counters of Blackwell and not those of Hopper
 *   no_ways      the driver knows nothing between GPUs
 *   far_end      NVLinks lead to what has no PCI address, and are of a version still unknown
 *   hang_init, hang_power   that call never returns
 * Compiled with OLD_DRIVER it lacks what newer drivers added. Values are returned as NVML does:
 * milliwatts, an eight-digit PCI domain, vendor ids in the low half. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT = 7,
  NOT_LOADED = 9, CORRUPTED = 14, LOST = 15, VERSION_MISMATCH = 25, DEPRECATED = 26
};

typedef struct { int index; } gpu_t;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} pci_t;
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } process_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned version; int margin; } margin_t;

static gpu_t gpus[2] = {{0}, {1}};

static int is(const char *deviation) {
  const char *set = getenv("FAKE_NVML");
  return set && strcmp(set, deviation) == 0;
}
static int on(const gpu_t *gpu, const char *deviation) { return gpu->index == 1 && is(deviation); }
static void hang(void) { for (;;) pause(); }
static int text(char *out, unsigned size, const char *value) {
  snprintf(out, size, "%s", value);
  return OK;
}
static int number(unsigned *out, unsigned value) { *out = value; return OK; }

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (is("hang_init")) hang();
  return is("not_loaded") ? NOT_LOADED : is("code_4711") ? 4711 : OK;
}
const char *nvmlErrorString(int code) {
  return code == 4711 ? "A new kind of trouble" : code == 23 ? "Insufficient Resources" : "?";
}
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, "570.86.15"); }
int nvmlDeviceGetCount_v2(unsigned *count) { return number(count, 2); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **handle) {
  if (index > 1) return INVALID;
  *handle = &gpus[index];
  return on(*handle, "lost") ? LOST : OK;
}
int nvmlDeviceGetPciInfo_v3(gpu_t *gpu, pci_t *info) {
  memset(info, 0, sizeof *info);
  info->device_id = 0x233510de;
  info->subsystem_id = 0x18be10de;
  if (on(gpu, "bad_address")) return text(info->bus_id, sizeof info->bus_id, "../../etc");
  return text(info->bus_id, sizeof info->bus_id, gpu->index ? "0001:2A:00.0" : "00000000:18:00.0");
}
int nvmlDeviceGetName(gpu_t *gpu, char *out, unsigned size) {
  (void)gpu;
  return text(out, size, "NVIDIA Test GPU");
}
int nvmlDeviceGetUUID(gpu_t *gpu, char *out, unsigned size) {
  return text(out, size, gpu->index ? "GPU-bbbb" : "GPU-aaaa");
}
int nvmlDeviceGetSerial(gpu_t *gpu, char *out, unsigned size) {
  return gpu->index ? NOT_SUPPORTED : text(out, size, "1650522000001");
}
int nvmlDeviceGetVbiosVersion(gpu_t *gpu, char *out, unsigned size) {
  (void)gpu;
  return text(out, size, "96.00.99.00.01");
}
int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *memory) {
  (void)gpu;
  memory->total = 80ULL << 30;
  memory->used = 1ULL << 30;
  memory->free = memory->total - memory->used;
  return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(gpu_t *gpu, unsigned *milliwatts) {
  if (on(gpu, "hang_power")) hang();
  return on(gpu, "no_power") ? NOT_SUPPORTED : number(milliwatts, gpu->index ? 500500 : 700000);
}
int nvmlDeviceGetPowerManagementDefaultLimit(gpu_t *gpu, unsigned *milliwatts) {
  (void)gpu;
  return number(milliwatts, 700000);
}
int nvmlDeviceGetTemperature(gpu_t *gpu, int sensor, unsigned *celsius) {
  return sensor != 0 ? INVALID : number(celsius, 30 + gpu->index);
}
int nvmlDeviceGetTemperatureThreshold(gpu_t *gpu, int kind, unsigned *celsius) {
  if (kind == 2 && gpu->index) return NOT_SUPPORTED;
  if (kind != 1) return kind > 2 ? INVALID : number(celsius, 95);
  return on(gpu, "margin") ? NOT_SUPPORTED : number(celsius, 90);
}
int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilization_t *rates) {
  if (on(gpu, "mig")) return NOT_SUPPORTED;
  rates->gpu = gpu->index ? 37 : 0;
  rates->memory = 99;
  return OK;
}
int nvmlDeviceGetPersistenceMode(gpu_t *gpu, unsigned *mode) { return number(mode, !gpu->index); }
int nvmlDeviceGetCurrPcieLinkWidth(gpu_t *gpu, unsigned *lanes) {
  return number(lanes, gpu->index ? 8 : 16);
}
int nvmlDeviceGetMaxPcieLinkWidth(gpu_t *gpu, unsigned *lanes) {
  return number(lanes, on(gpu, "no_lanes") ? 0 : 16);
}
int nvmlDeviceGetCurrPcieLinkGeneration(gpu_t *gpu, unsigned *generation) {
  (void)gpu;
  return number(generation, 1);
}
int nvmlDeviceGetMaxPcieLinkGeneration(gpu_t *gpu, unsigned *generation) {
  (void)gpu;
  return number(generation, 5);
}
int nvmlDeviceGetNvLinkState(gpu_t *gpu, unsigned link, unsigned *active) {
  if (gpu->index) return NOT_SUPPORTED;
  return link >= 4 ? INVALID : number(active, link != 2); /* link 2 of four is down */
}

#include "fake_nvml_health.h"
#include "fake_nvml_topology.h"

static int processes(gpu_t *gpu, unsigned *count, process_t *out) {
  unsigned room = *count;
  *count = gpu->index ? 2 : 0;
  if (room < *count) return INSUFFICIENT;
  if (*count) {
    memset(out, 0, 2 * sizeof *out);
    out[0].pid = getpid(); /* this process: not somebody's work */
    out[1].pid = 4711;
    out[1].memory = 2ULL << 30;
  }
  return OK;
}
static int drawing(gpu_t *gpu, unsigned *count, process_t *out) {
  if (on(gpu, "mig")) return NO_PERMISSION;
  int result = processes(gpu, count, out);
  if (result == OK && *count) {
    out[0].pid = 1200;
    out[0].memory = -1ULL; /* not available */
  }
  return result;
}
#ifdef OLD_DRIVER
int nvmlDeviceGetGraphicsRunningProcesses_v2(gpu_t *gpu, unsigned *count, process_t *out) {
  return drawing(gpu, count, out);
}
int nvmlDeviceGetComputeRunningProcesses_v2(gpu_t *gpu, unsigned *count, process_t *out) {
  return processes(gpu, count, out);
}
#else
int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t *gpu, unsigned *count, process_t *out) {
  return processes(gpu, count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(gpu_t *gpu, unsigned *count, process_t *out) {
  return drawing(gpu, count, out);
}
int nvmlDeviceGetCurrentClocksEventReasons(gpu_t *gpu, unsigned long long *bits) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(gpu, bits);
}
int nvmlDeviceGetPerformanceState(gpu_t *gpu, unsigned *state) {
  return number(state, gpu->index ? 32 : 0);
}
int nvmlDeviceGetMarginTemperature(gpu_t *gpu, margin_t *margin) {
  margin->margin = 50 + gpu->index;
  return OK;
}
#endif
