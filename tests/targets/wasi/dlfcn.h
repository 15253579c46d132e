/* SPDX-License-Identifier: MIT */
/* In place of WASI's own, which is empty; see main.c. */
#ifndef WASI_DLFCN_H
#define WASI_DLFCN_H

#define RTLD_NOW 0
#define RTLD_LOCAL 0

void *dlopen(const char *path, int mode);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
char *dlerror(void);

#endif
