/* A GPU that works gets hot: what changes with load, computed from the time since it began.
 *
 * Temperature follows power with one time constant: it heads for ambient + resistance * power,
 *   T(t) = target + (T(0) - target) * exp(-t / time constant),
 * and after the load back to the idle temperature. No state is kept, so all processes agree.
 *
 * Power is what the load asks for, at most the enforced limit (then sw_power_cap is set). When
 * the temperature reaches the maximum operating temperature, software lowers power so as to stay
 * there, to half at most (sw_thermal_slowdown); when it reaches the slowdown threshold all the
 * same, hardware lowers it to an eighth at most (hw_slowdown, hw_thermal_slowdown). The SM clock
 * follows the cube root of the power, as voltage falls with it.
 *
 * The power of an instant scatters at work: the middle 80 % of what one H100 and two H200 said of
 * theirs in products of matrices at their limit lay 5.8 to 7.3 % apart, while the average of a
 * second kept within 1 %. */
#define _GNU_SOURCE
#include "scenario.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

typedef struct {
  double ambient_c, resistance_c_per_w, time_constant_s; /* of the GPU and its cooling ... */
  double cooling_time_constant_s;                        /* ... after the load, if it differs */
  double idle_w, idle_c, demand_w;
  double worked_s, cooled_s; /* cooled_s: since the load ended; negative while it goes on */
  double power_w, temperature_c, energy_j; /* energy: above idle */
  count_t reasons;
} load_t;

static const struct {
  const char *threshold; /* key; the scenario may lack it */
  double least_share;    /* of the power before */
  count_t reasons;
} slowdowns[] = {
    {"temperature_max_operating_c", 0.5, nvmlClocksEventReasonSwThermalSlowdown},
    {"temperature_slowdown_c", 0.25,
     nvmlClocksThrottleReasonHwSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown},
};

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* When the GPU began to work: the file that HWLAB_NVML_LOAD names, for all GPUs, or the one of that
 * name and ".<index>" holds "since until", or one, or nothing: then its own time counts. */
static bool working_file(int gpu, double *since, double *until) {
  const char *path = getenv("HWLAB_NVML_LOAD");
  FILE *file = path ? fopen(path, "re") : NULL;
  char own[PATH_MAX];
  struct stat about;
  if (path && !file) {
    snprintf(own, sizeof own, "%s.%d", path, gpu);
    file = fopen(own, "re");
  }
  if (!file) return false;
  if (fstat(fileno(file), &about) == 0)
    *since = (double)about.st_mtim.tv_sec + (double)about.st_mtim.tv_nsec / 1e9;
  int given = fscanf(file, "%lf %lf", since, until);
  fclose(file);
  return given <= 2; /* whichever is not given keeps its value */
}

static bool work_time(int gpu, load_t *load) {
  double now = seconds(CLOCK_REALTIME), since = 0, until = HUGE_VAL;
  count_t forever;
  if (scenario_count(gpu, "load.forever", &forever)) {
    load->worked_s = HUGE_VAL;
    load->cooled_s = -1;
    return true;
  }
  if (scenario_number(gpu, "load.since_s", &since)) {
    scenario_number(gpu, "load.until_s", &until);
  } else if (!working_file(gpu, &since, &until)) {
    return false;
  }
  load->worked_s = fmin(now, until) - since;
  load->cooled_s = now - until;
  return load->worked_s > 0;
}

/* Let the GPU work at its power until it reaches `limit_c`, at most `*left_s`; true if it did. */
static bool work_until(load_t *load, double limit_c, double *left_s) {
  double target = load->ambient_c + load->resistance_c_per_w * load->power_w;
  double start = load->temperature_c, spent = *left_s;
  if (start >= limit_c) {
    spent = 0;
  } else if (target > limit_c) {
    spent = fmin(spent, load->time_constant_s * log((target - start) / (target - limit_c)));
  }
  bool reached = start >= limit_c || (target > limit_c && spent < *left_s);
  load->temperature_c =
      reached ? fmax(start, limit_c)
              : target + (start - target) * exp(-spent / load->time_constant_s);
  if (isfinite(spent)) load->energy_j += (load->power_w - load->idle_w) * spent;
  *left_s -= spent;
  return reached;
}

static void work(int gpu, load_t *load) {
  double limit_w, left_s = load->worked_s;
  load->power_w = load->demand_w;
  load->temperature_c = load->idle_c;
  if (scenario_number(gpu, "power_limit_w", &limit_w) && load->demand_w >= limit_w) {
    load->power_w = limit_w;
    load->reasons |= nvmlClocksEventReasonSwPowerCap;
  }
  for (size_t i = 0; i < sizeof slowdowns / sizeof *slowdowns; i++) {
    double limit_c;
    if (!scenario_number(gpu, slowdowns[i].threshold, &limit_c)) continue;
    if (!work_until(load, limit_c, &left_s)) return;
    double bearable_w = (limit_c - load->ambient_c) / load->resistance_c_per_w;
    load->power_w = fmin(load->power_w, fmax(bearable_w, load->power_w * slowdowns[i].least_share));
    load->reasons |= slowdowns[i].reasons;
  }
  work_until(load, HUGE_VAL, &left_s);
}

/* False where nothing has worked, or the scenario has no model. */
static bool loaded(int gpu, load_t *load) {
  memset(load, 0, sizeof *load);
  if (!work_time(gpu, load)) return false;
  if (!scenario_number(gpu, "under_load.power_w", &load->demand_w)) return false;
  scenario_number(gpu, "under_load.ambient_c", &load->ambient_c);
  scenario_number(gpu, "under_load.resistance_c_per_w", &load->resistance_c_per_w);
  scenario_number(gpu, "under_load.time_constant_s", &load->time_constant_s);
  load->cooling_time_constant_s = load->time_constant_s;
  scenario_number(gpu, "under_load.cooling_time_constant_s", &load->cooling_time_constant_s);
  load->idle_c = load->ambient_c;
  scenario_number(gpu, "power_w", &load->idle_w);
  scenario_number(gpu, "temperature_c", &load->idle_c);
  work(gpu, load);
  if (load->cooled_s >= 0) {
    double rest = exp(-load->cooled_s / load->cooling_time_constant_s);
    load->temperature_c = load->idle_c + (load->temperature_c - load->idle_c) * rest;
    load->power_w = load->idle_w;
    load->reasons = 0;
  }
  return true;
}

static void worked(int gpu, const load_t *load, const char *key, double *value) {
  char own[KEY_SIZE];
  if (strcmp(key, "power_w") == 0) *value = load->power_w;
  if (strcmp(key, "temperature_c") == 0) *value = floor(load->temperature_c);
  if (strcmp(key, "thermal_margin_c") == 0) *value -= floor(load->temperature_c) - load->idle_c;
  if (strcmp(key, "memory_temperature_c") == 0) *value += load->temperature_c - load->idle_c;
  if (load->cooled_s >= 0) return;
  if (strcmp(key, "clocks.sm_mhz") == 0 || strcmp(key, "clocks.graphics_mhz") == 0) {
    if (!scenario_number(gpu, "under_load.sm_mhz", value))
      scenario_number(gpu, "clocks.max_sm_mhz", value);
    *value *= cbrt(load->power_w / load->demand_w);
  }
  if (strcmp(key, "clocks.memory_mhz") == 0) scenario_number(gpu, "clocks.max_memory_mhz", value);
  snprintf(own, sizeof own, "under_load.%s", key);
  if (strcmp(key, "power_w") != 0) scenario_number(gpu, own, value);
}

/* What a counter gained under load; it keeps it afterwards. */
static double gained(int gpu, const load_t *load, const char *key) {
  char own[KEY_SIZE];
  double after_s = 0, errors = 0;
  scenario_number(gpu, "under_load.new_errors.after_s", &after_s);
  snprintf(own, sizeof own, "under_load.new_errors.%s", key);
  if (load->worked_s >= after_s) scenario_number(gpu, own, &errors);
  return errors;
}

/* Return a share of the power from -0.1 to 0.1, near a normal distribution of sigma 0.027; it
 * changes every 20 ms, and is another for each GPU. */
static double scatter(int gpu) {
  unsigned long long state = (unsigned long long)(seconds(CLOCK_REALTIME) * 50) * 64 + (unsigned)gpu;
  double sum = 0;
  for (int i = 0; i < 4; i++) { /* splitmix64 */
    unsigned long long bits = (state += 0x9e3779b97f4a7c15ULL);
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    sum += (double)((bits ^ (bits >> 31)) >> 11) / (double)(1ULL << 53) - 0.5;
  }
  return 0.047 * sum;
}

static bool instant_power(int gpu, double *watts) {
  load_t load;
  if (!live_number(gpu, "power_w", watts)) return false;
  if (loaded(gpu, &load) && load.cooled_s < 0) *watts *= 1 + scatter(gpu);
  return true;
}

bool live_number(int gpu, const char *key, double *out) {
  load_t load;
  double idle_w;
  if (strcmp(key, "power_instant_w") == 0) return instant_power(gpu, out);
  if (!scenario_number(gpu, key, out)) return false;
  bool works = loaded(gpu, &load);
  if (works) {
    worked(gpu, &load, key, out);
    *out += gained(gpu, &load, key);
  }
  if (strcmp(key, "total_energy_j") == 0 && scenario_number(gpu, "power_w", &idle_w)) {
    double usual_w = works && isinf(load.worked_s) ? load.power_w : idle_w;
    *out += usual_w * seconds(CLOCK_BOOTTIME) + load.energy_j;
  }
  return true;
}

bool live_count(int gpu, const char *key, count_t *out) {
  load_t load;
  if (!scenario_count(gpu, key, out)) return false;
  if (loaded(gpu, &load)) *out += (count_t)gained(gpu, &load, key);
  return true;
}

bool live_reasons(int gpu, count_t *bits) {
  load_t load;
  if (!scenario_count(gpu, "clock_event_reasons", bits)) return false;
  if (!loaded(gpu, &load) || load.cooled_s >= 0) return true;
  count_t own = scenario_count_or(gpu, "under_load.clock_event_reasons", 0);
  *bits = (*bits & ~(count_t)nvmlClocksEventReasonGpuIdle) | load.reasons | own;
  return true;
}
