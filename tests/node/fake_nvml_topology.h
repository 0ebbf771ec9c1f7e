/* The part of fake_nvml.c that answers for places and ways. What an older driver lacks is left out
 * of it, and it knows no capability but reading and writing. */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t *gpu, unsigned link, pci_t *info) {
  (void)gpu;
  memset(info, 0, sizeof *info);
  if (is("far_end")) return text(info->bus_id, sizeof info->bus_id, "nowhere");
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:0%u:00.0", 5 + link);
  return OK;
}
int nvmlDeviceGetNvLinkVersion(gpu_t *gpu, unsigned link, unsigned *version) {
  (void)gpu;
  (void)link;
  return number(version, is("far_end") ? 99 : 6);
}
int nvmlDeviceGetTopologyCommonAncestor(gpu_t *one, gpu_t *other, int *level) {
  if (is("no_ways")) return NOT_SUPPORTED;
  *level = one->index < other->index ? 20 : 40;
  return OK;
}
int nvmlDeviceGetP2PStatus(gpu_t *one, gpu_t *other, int capability, int *status) {
  static const int first[] = {0, 1, 2, 3}, second[] = {4, 5, 6, 7};
  if (is("no_ways")) return NOT_SUPPORTED;
#ifdef OLD_DRIVER
  if (capability > 1) return NOT_SUPPORTED;
#endif
  *status = (one->index < other->index ? first : second)[capability];
  return OK;
}
int nvmlDeviceGetCpuAffinity(gpu_t *gpu, unsigned words, unsigned long *set) {
  memset(set, 0, words * sizeof *set);
  if (words < 4) return INSUFFICIENT;
  if (gpu->index) {
    set[0] = 1;
    set[3] = 1UL << 63;
  } else {
    set[0] = 0xffffffff;
    set[1] = ~0UL;
    set[2] = 7;
  }
  return OK;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryAffinity(gpu_t *gpu, unsigned words, unsigned long *set, int scope) {
  memset(set, 0, words * sizeof *set);
  if (scope) return INVALID;
  if (!gpu->index) set[0] = 0x3f9; /* 0 and 3 to 9; nothing is near GPU 1 */
  return OK;
}
int nvmlDeviceGetNumaNodeId(gpu_t *gpu, int *node) {
  *node = gpu->index ? -1 : 2;
  return OK;
}
#endif
