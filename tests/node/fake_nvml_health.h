/* The part of fake_nvml.c that answers for memory, links, clocks and firmware. */
typedef struct { unsigned max, high, partial, low, none; } histogram_t;
typedef struct { unsigned version; unsigned long long counts[11]; unsigned exceeded; } sram_t;
typedef struct {
  unsigned id, scope;
  long long timestamp, latency;
  unsigned type, status;
  unsigned long long value;
} field_t;
typedef struct {
  unsigned version;
  unsigned char uuid[16];
  unsigned status, clique, state, health;
} fabric_t;

int nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t *gpu, unsigned link, unsigned *type) {
  (void)gpu;
  return link == 2 ? INVALID : number(type, 2);
}
int nvmlDeviceGetNvLinkErrorCounter(gpu_t *gpu, unsigned link, int kind, unsigned long long *out) {
  (void)gpu;
  *out = 10 * link + kind;
  return OK;
}
int nvmlDeviceGetPcieReplayCounter(gpu_t *gpu, unsigned *count) {
  return gpu->index ? NOT_SUPPORTED : number(count, 67);
}
int nvmlDeviceGetEccMode(gpu_t *gpu, unsigned *current, unsigned *pending) {
  return on(gpu, "no_ecc") ? NOT_SUPPORTED : number(current, 1) || number(pending, gpu->index);
}
int nvmlDeviceGetDefaultEccMode(gpu_t *gpu, unsigned *mode) {
  return on(gpu, "no_ecc") ? NOT_SUPPORTED : number(mode, 1);
}
int nvmlDeviceGetTotalEccErrors(gpu_t *gpu, int type, int counter, unsigned long long *count) {
  *count = 1 + type + 2 * counter;
  return on(gpu, "mig") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetRemappedRows(gpu_t *gpu, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *pending, unsigned *failure) {
  if (on(gpu, "no_ecc") || on(gpu, "mig")) return NOT_SUPPORTED;
  return number(correctable, 1) || number(uncorrectable, 4) || number(pending, 1) ||
         number(failure, 0);
}
int nvmlDeviceGetRowRemapperHistogram(gpu_t *gpu, histogram_t *banks) {
  (void)gpu;
  *banks = (histogram_t){638, 0, 0, 0, 2};
  return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(gpu_t *gpu, unsigned *pending) {
  return gpu->index ? number(pending, 1) : NOT_SUPPORTED;
}
int nvmlDeviceGetRetiredPages(gpu_t *gpu, int cause, unsigned *count, unsigned long long *out) {
  unsigned room = *count;
  *count = cause ? 1 : 3;
  if (!gpu->index) return NOT_SUPPORTED;
  if (room < *count) return INSUFFICIENT;
  memset(out, 0, *count * sizeof *out);
  return OK;
}
int nvmlDeviceGetBAR1MemoryInfo(gpu_t *gpu, memory_t *window) {
  *window = (memory_t){gpu->index ? 256ULL << 20 : 128ULL << 30, 0, 0};
  return on(gpu, "mig") ? NO_PERMISSION : OK;
}
int nvmlDeviceGetMigMode(gpu_t *gpu, unsigned *current, unsigned *pending) {
  if (gpu->index && !is("mig")) return NOT_SUPPORTED;
  return number(current, gpu->index) || number(pending, gpu->index);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(gpu_t *gpu, unsigned long long *bits) {
  *bits = gpu->index ? 0x488 : 0x1;
  return OK;
}
int nvmlDeviceGetPowerState(gpu_t *gpu, unsigned *state) {
  return number(state, gpu->index ? 32 : 8);
}
int nvmlDeviceGetApplicationsClock(gpu_t *gpu, int kind, unsigned *mhz) {
  return gpu->index ? DEPRECATED : number(mhz, kind == 2 ? 1593 : 1200);
}
int nvmlDeviceGetDefaultApplicationsClock(gpu_t *gpu, int kind, unsigned *mhz) {
  return gpu->index ? DEPRECATED : number(mhz, kind == 2 ? 2619 : 1980);
}
int nvmlDeviceGetNumFans(gpu_t *gpu, unsigned *fans) {
  return gpu->index ? number(fans, 2) : NOT_SUPPORTED;
}
int nvmlDeviceGetFanSpeed_v2(gpu_t *gpu, unsigned fan, unsigned *percent) {
  (void)gpu;
  return number(percent, 30 + fan);
}
int nvmlDeviceGetInforomImageVersion(gpu_t *gpu, char *out, unsigned size) {
  (void)gpu;
  return text(out, size, "G520.0200.00.05");
}
int nvmlDeviceValidateInforom(gpu_t *gpu) { return on(gpu, "corrupted") ? CORRUPTED : OK; }
int nvmlDeviceGetBoardPartNumber(gpu_t *gpu, char *out, unsigned size) {
  return gpu->index ? NOT_SUPPORTED : text(out, size, "692-2G520-0200-000");
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return OK; }
int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
  return pid == 4711 ? text(out, size, "/usr/bin/python3.11\x1b[31m") : NOT_FOUND;
}

static int field(const gpu_t *gpu, field_t *field) {
  int newest = field->id >= 206 && field->id <= 221, hopper = field->id >= 161 && field->id <= 163;
  field->type = 3; /* unsigned long long */
  field->value = 0;
  if (field->id == 82 && !gpu->index) return field->value = 44, OK;
#ifdef OLD_DRIVER
  if (field->id == 90) return field->value = 25781, OK;
#else
  if (field->id == 164) return field->value = 26562 + field->scope, OK;
  if (is("blackwell") ? newest : hopper) {
    field->value = field->scope == 3 && field->id <= 206 ? 7 : 0;
    return OK;
  }
#endif
  return newest || hopper ? NOT_SUPPORTED : INVALID;
}
int nvmlDeviceGetFieldValues(gpu_t *gpu, int count, field_t *fields) {
  for (int i = 0; i < count; i++) fields[i].status = field(gpu, &fields[i]);
  return OK;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetSramEccErrorStatus(gpu_t *gpu, sram_t *status) {
  status->exceeded = gpu->index;
  return is("denied") ? NO_PERMISSION : OK;
}
int nvmlDeviceGetGpuFabricInfoV(gpu_t *gpu, fabric_t *info) {
  if (is("fabric_v2") && info->version >> 24 != 2) return VERSION_MISMATCH;
  info->status = is("fabric_v2") ? 23 : OK;
  info->state = gpu->index ? 0 : 3;
  /* bandwidth degraded; no route recovery; route unhealthy; too few NVLinks */
  info->health = is("fabric_v2") ? 0x1aa : 1 | 2 << 2 | 1 << 4 | 5 << 8;
  return OK;
}
#endif
