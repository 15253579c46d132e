/* SPDX-License-Identifier: MIT */
/* The version of attngen and attnrun. It stands in every emitted file. */
#ifndef ATTNGEN_VERSION_H
#define ATTNGEN_VERSION_H

#define ATTNGEN_VERSION "0.1.0"

#endif
