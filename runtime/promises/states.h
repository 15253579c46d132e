/* SPDX-License-Identifier: MIT */
/* What layer = recurrent promises of its states: cuts of a sequence into calls, what a number reaches, numbers at the
 * ends of f32.
 */
#ifndef ATTNRUN_STATES_H
#define ATTNRUN_STATES_H

#include "trial.h"

/* True for other layers. */
bool states_hold(struct trial *trial);

#endif
