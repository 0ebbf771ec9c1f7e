/* What not every function asks of scenario.c. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>

/* Read the file again if it was replaced; false where there is none. */
bool scenario_refresh(void);

#endif
