/* SPDX-License-Identifier: MIT */
/* The version of attngen and attnrun. It stands in every emitted file. */
#pragma once

#define ATTNGEN_VERSION "0.1.0"
