/* SPDX-License-Identifier: MIT */
/* The time, for measuring and for waiting. */
#ifndef ATTNRUN_CLOCK_H
#define ATTNRUN_CLOCK_H

double now_us(void); /* of a clock that only goes forward */

#endif
