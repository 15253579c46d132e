/* SPDX-License-Identifier: MIT */
/* The plots of a sweep's page, by gnuplot, as inline SVG.
 *
 * What is varied becomes: x, the first key whose values are all numbers (else the first key, its values side by side);
 * the series of a plot, the first of the others whose values are words (else the first of them); and a group of plots
 * for each combination of what is left, machines that differ included. Left out on purpose: HTML around them.
 */
#ifndef ATTNRUN_PLOTS_H
#define ATTNRUN_PLOTS_H

#include "report.h"

struct plot {
    const char *title;
    char *svg;     /* from "<svg" on; its ids begin with the plot's own prefix */
    size_t beyond; /* results whose largest sample lies above the drawing */
};

/* The plots of one combination, "" if there is but one. */
struct plot_group {
    char *title;
    struct plot *plot;
    size_t count;
};

#define PLOTS_SERIES_MOST 64

struct plots {
    struct plot_group *group;
    size_t count;
    const char *cut; /* the key of whose values only the first PLOTS_SERIES_MOST are drawn; NULL: there is none */
};

/* False with the reason in `diag`; plots_free() in any case. */
bool plots_make(struct plots *plots, const struct records *records, const struct columns *columns, struct diag *diag);
void plots_free(struct plots *plots);

#endif
