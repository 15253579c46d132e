/* SPDX-License-Identifier: MIT */
/* In place of WASI's own, which has no such type; see main.c. */
#ifndef WASI_SIGNAL_H
#define WASI_SIGNAL_H

typedef int sigset_t;

#endif
