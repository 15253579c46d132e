/* SPDX-License-Identifier: MIT */
/* What time it is, for those who measure and those who wait. */
#ifndef ATTNRUN_CLOCK_H
#define ATTNRUN_CLOCK_H

double now_us(void); /* of a clock that only goes forward */

#endif
