/* Events: what happens on a GPU after somebody began to listen.
 *
 * An event of the scenario happens when it is written: what was there already when a set began to
 * listen is past for it. One with after_s happens that long after. */
#define _GNU_SOURCE
#include "scenario.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lines.h"

enum { MAX_EVENTS = 64, POLL_MS = 5 }; /* events per GPU, of which a set knows what it has told */

struct nvmlEventSet_st {
  count_t types[MAX_GPUS]; /* 0: this GPU is not listened to */
  count_t told[MAX_GPUS];  /* bit per event */
  double since_s[MAX_GPUS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool event_number(int gpu, unsigned event, const char *name, double *out) {
  char key[KEY_SIZE];
  snprintf(key, sizeof key, "events.%u.%s", event, name);
  return scenario_number(gpu, key, out);
}

static unsigned event_count(int gpu) {
  count_t events = scenario_count_or(gpu, "events.count", 0);
  return events < MAX_EVENTS ? (unsigned)events : MAX_EVENTS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, count_t *types) {
  return ask_count(__func__, device, "event_types", types);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
  nvmlReturn_t result = enter_node(__func__);
  if (result != NVML_SUCCESS) return result;
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  *set = calloc(1, sizeof **set);
  return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  nvmlReturn_t result = enter_node(__func__);
  if (result == NVML_SUCCESS) free(set);
  return result;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, count_t types, nvmlEventSet_t set) {
  count_t supported;
  double after_s;
  int gpu;
  nvmlReturn_t result = enter_gpu(__func__, device, "event_types", &gpu);
  if (result != NVML_SUCCESS) return result;
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  if (!scenario_count(gpu, "event_types", &supported) || types & ~supported)
    return NVML_ERROR_NOT_SUPPORTED;
  pthread_mutex_lock(&lock);
  set->types[gpu] |= types;
  set->since_s[gpu] = now_s();
  for (unsigned i = 0; i < event_count(gpu); i++)
    if (!event_number(gpu, i, "after_s", &after_s)) set->told[gpu] |= 1ULL << i;
  pthread_mutex_unlock(&lock);
  return NVML_SUCCESS;
}

/* Whether this event has happened, is one that the set wants, and was not told yet. */
static bool take(nvmlEventSet_t set, int gpu, unsigned event, nvmlEventData_t *data) {
  double after_s = 0, type = 0, value = 0;
  event_number(gpu, event, "after_s", &after_s);
  event_number(gpu, event, "type", &type);
  event_number(gpu, event, "data", &value);
  if (set->told[gpu] >> event & 1 || now_s() < set->since_s[gpu] + after_s) return false;
  set->told[gpu] |= 1ULL << event;
  *data = (nvmlEventData_t){gpu_handle((unsigned)gpu), (count_t)type, (count_t)value, ~0U, ~0U};
  return (set->types[gpu] & (count_t)type) != 0;
}

static bool take_any(nvmlEventSet_t set, nvmlEventData_t *data) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (int gpu = 0; gpu < (int)gpu_count() && !found; gpu++)
    for (unsigned i = 0; set->types[gpu] && i < event_count(gpu) && !found; i++)
      found = take(set, gpu, i, data);
  pthread_mutex_unlock(&lock);
  return found;
}

static nvmlReturn_t wait_for_event(const char *function, nvmlEventSet_t set, nvmlEventData_t *data,
                                   unsigned timeout_ms) {
  const struct timespec pause_for = {0, POLL_MS * 1000000L};
  double until_s = now_s() + timeout_ms / 1e3;
  nvmlReturn_t result = enter_node(function);
  if (result != NVML_SUCCESS) return result;
  if (!set || !data) return NVML_ERROR_INVALID_ARGUMENT;
  while (!take_any(set, data)) {
    if (now_s() >= until_s) return NVML_ERROR_TIMEOUT;
    nanosleep(&pause_for, NULL);
    scenario_refresh();
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
  return wait_for_event(__func__, set, data, timeout_ms);
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
  return wait_for_event(__func__, set, data, timeout_ms);
}
