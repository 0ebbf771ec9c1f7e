/* The scenario file in memory: sorted lines, replaced as a whole under one lock. */
#define _GNU_SOURCE
#include "scenario.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lines.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *content;       /* the file, its line ends and first '=' replaced by 0 */
static const char **lines;  /* keys; each is followed by its value */
static size_t line_count;
static struct stat read_as; /* what the file was when it was read */

static int by_key(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void forget(void) {
  free(content);
  free(lines);
  content = NULL;
  lines = NULL;
  line_count = 0;
}

static void keep_lines(char *text, size_t size) {
  size_t room = 1;
  for (size_t i = 0; i < size; i++) room += text[i] == '\n';
  forget();
  content = text;
  lines = calloc(room, sizeof *lines);
  char *rest = text;
  for (char *line; lines && (line = strtok_r(rest, "\n", &rest));) {
    char *equals = strchr(line, '=');
    if (!equals) continue;
    *equals = 0;
    lines[line_count++] = line;
  }
  if (lines) qsort(lines, line_count, sizeof *lines, by_key);
}

static bool same_file(const struct stat *now) {
  return now->st_ino == read_as.st_ino && now->st_dev == read_as.st_dev &&
         now->st_size == read_as.st_size && now->st_mtim.tv_sec == read_as.st_mtim.tv_sec &&
         now->st_mtim.tv_nsec == read_as.st_mtim.tv_nsec;
}

static bool read_file(const char *path, const struct stat *now) {
  size_t size = (size_t)now->st_size;
  char *text = calloc(size + 1, 1);
  FILE *file = fopen(path, "re");
  bool done = text && file && fread(text, 1, size, file) == size;
  if (file) fclose(file);
  if (!done) {
    free(text);
    return false;
  }
  keep_lines(text, size);
  read_as = *now;
  return true;
}

/* The file that the environment names, or the one beside this library. */
static const char *scenario_path(void) {
  static char beside[PATH_MAX];
  const char *named = getenv("HWLAB_NVML");
  Dl_info library;
  if (named || *beside) return named ? named : beside;
  if (!dladdr(&lock, &library)) return "";
  const char *slash = strrchr(library.dli_fname, '/');
  int length = slash ? (int)(slash - library.dli_fname) : 0;
  snprintf(beside, sizeof beside, "%.*s/scenario", length, library.dli_fname);
  return beside;
}

bool scenario_refresh(void) {
  struct stat now;
  pthread_mutex_lock(&lock);
  const char *path = scenario_path();
  bool there = stat(path, &now) == 0;
  if (there && !(lines && same_file(&now))) there = read_file(path, &now);
  if (!there) forget();
  pthread_mutex_unlock(&lock);
  return there;
}

/* Who wants to know which keys are looked up names a file for them in HWLAB_NVML_KEYS. */
static void note(const char *key) {
  const char *path = getenv("HWLAB_NVML_KEYS");
  FILE *file = path ? fopen(path, "ae") : NULL;
  if (!file) return;
  fprintf(file, "%s\n", key);
  fclose(file);
}

bool scenario_text(int gpu, const char *key, char *out, size_t size) {
  char whole[KEY_SIZE];
  const char *wanted = whole;
  if (gpu == NODE) {
    wanted = key;
  } else {
    snprintf(whole, sizeof whole, "gpu.%d.%s", gpu, key);
  }
  pthread_mutex_lock(&lock);
  note(wanted);
  const char **found =
      lines ? bsearch(&wanted, lines, line_count, sizeof *lines, by_key) : NULL;
  if (found) snprintf(out, size, "%s", *found + strlen(*found) + 1);
  pthread_mutex_unlock(&lock);
  return found != NULL;
}

bool scenario_number(int gpu, const char *key, double *out) {
  char text[TEXT_SIZE];
  bool given = scenario_text(gpu, key, text, sizeof text);
  if (given) *out = strtod(text, NULL);
  return given;
}

bool scenario_count(int gpu, const char *key, count_t *out) {
  char text[TEXT_SIZE];
  bool given = scenario_text(gpu, key, text, sizeof text);
  if (given) *out = strtoull(text, NULL, 0);
  return given;
}

count_t scenario_count_or(int gpu, const char *key, count_t otherwise) {
  scenario_count(gpu, key, &otherwise);
  return otherwise;
}
