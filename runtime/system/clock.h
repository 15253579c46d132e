/* SPDX-License-Identifier: MIT */
/* The time, for measuring and for waiting. */
#pragma once

double now_us(void); /* of a clock that only goes forward */
