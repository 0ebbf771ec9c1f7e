/* The scenario file, and what every NVML function does before it answers.
 *
 * The file is lines of key=value, written by tests/lab/nvml.py; a GPU's keys begin with
 * "gpu.<index>.". HWLAB_NVML names it, or it is called scenario and lies beside the library; it is
 * read again whenever it was replaced. */
#ifndef SCENARIO_H
#define SCENARIO_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS /* every version of a function under its own name */
#include <nvml.h>
#include <stdbool.h>
#include <stddef.h>

typedef unsigned long long count_t; /* what nvml.h has no type for */

enum { NODE = -1, MAX_GPUS = 64, KEY_SIZE = 128, TEXT_SIZE = 512 };

/* Values as the scenario gives them; false (and *out untouched) where it does not. */
bool scenario_text(int gpu, const char *key, char *out, size_t size);
bool scenario_number(int gpu, const char *key, double *out);
bool scenario_count(int gpu, const char *key, count_t *out);
count_t scenario_count_or(int gpu, const char *key, count_t otherwise);

/* What each function does first: read the file if it changed, wait or hang if it says so, and
 * return the error that it gives for this function or, of a GPU, for this quantity. */
nvmlReturn_t enter(const char *function);
nvmlReturn_t enter_node(const char *function); /* and UNINITIALIZED before nvmlInit */
nvmlReturn_t enter_gpu(const char *function, nvmlDevice_t device, const char *quantity, int *gpu);

/* The error that the scenario gives for another quantity of the same call. */
nvmlReturn_t gpu_error(const char *function, int gpu, const char *quantity);

/* The same, then the value; NOT_SUPPORTED where the scenario does not give it, INVALID_ARGUMENT
 * where out is NULL. `quantity` is the key up to its first dot. */
nvmlReturn_t ask_text(const char *function, nvmlDevice_t device, const char *key, char *out,
                      unsigned size);
nvmlReturn_t ask_number(const char *function, nvmlDevice_t device, const char *key, double *out);
nvmlReturn_t ask_numbers(const char *function, nvmlDevice_t device, size_t count,
                         const char *const *keys, double *outs);
nvmlReturn_t ask_count(const char *function, nvmlDevice_t device, const char *key, count_t *out);
nvmlReturn_t ask_unsigned(const char *function, nvmlDevice_t device, const char *key, double scale,
                          unsigned *out);
nvmlReturn_t ask_mode(const char *function, nvmlDevice_t device, const char *key,
                      nvmlEnableState_t *out);

/* Copy a text as NVML does. */
nvmlReturn_t put_text(const char *text, char *out, unsigned size);

/* A number after the load model (load.c): what changes while the GPU works. */
bool live_number(int gpu, const char *key, double *out);
bool live_count(int gpu, const char *key, count_t *out);
bool live_reasons(int gpu, count_t *bits);

/* What the scenario's driver generation has (driver.c). */
bool driver_has_function(const char *name);
bool driver_has_field(unsigned id);
bool driver_has_link(unsigned link);
unsigned driver_fabric_version(void); /* of the newest nvmlGpuFabricInfo structure */

/* Wait so long. */
void wait_s(double seconds);

/* Wait while the driver initializes a GPU (init.c). */
void wait_for_driver(void);

/* Handles, and NVML's initialization. */
unsigned gpu_count(void);
nvmlDevice_t gpu_handle(unsigned index);
bool initialized(void);

/* Fill NVML's structure from 0000:18:00.0 (init.c). */
void put_pci_address(const char *address, nvmlPciInfo_t *out);

#endif
