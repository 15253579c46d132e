/* SPDX-License-Identifier: MIT */
/* How a reason is added to a plan, and the phrases that reasons share.
 *
 * Left out on purpose: the reasons (plan_reasons.c, step_KIND.c).
 */
#include "plan/planning.h"

#include "base/memory.h"

#include <stdarg.h>

#define REASON_TEXT 2000
void reason(struct plan_isa *p, const char *format, ...)
{
    char text[REASON_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (p->reason_count < PLAN_REASONS)
        p->reasons[p->reason_count++] = text_copy(text);
}

/* Why something is as it is: requested, or the model's own words. */
const char *why(const struct plan_isa *p, enum plan_key key, const char *otherwise)
{
    return request_asks(&p->asked, key) ? "as requested" : otherwise;
}

/* Behind what is not folded */
const char *despite_request(const struct plan_isa *p)
{
    return request_asks(&p->asked, PLAN_FOLD) ? ", whatever plan.fold asks for" : "";
}

const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* "768 bytes", "192 KiB" */
const char *bytes_text(char text[32], int64_t bytes)
{
    if (bytes < 10240)
        snprintf(text, 32, D64 " bytes", bytes);
    else
        snprintf(text, 32, D64 " KiB", bytes / 1024);
    return text;
}

const char *prefetch_text(char text[80], int64_t lines, const char *what)
{
    text[0] = '\0';
    if (lines > 0)
        snprintf(text, 80, "; each iteration prefetches " D64 " line%s of the next %s", lines, plural(lines), what);
    return text;
}

/* "6 (not where 10 are left), 5, 2, 1" */
void print_heights(FILE *out, const struct tile_heights *heights)
{
    for (const struct tile_height *h = heights->at; h < heights->at + heights->count; h++) {
        fprintf(out, "%s" D64, h > heights->at ? ", " : "", h->rows);
        if (h->count > 0)
            fprintf(out, " (" D64 " of them)", h->count);
        if (h->stop[0] > 0 && h->stop[1] > 0)
            fprintf(out, " (not where " D64 " or " D64 " are left)", h->stop[0], h->stop[1]);
        else if (h->stop[0] > 0)
            fprintf(out, " (not where " D64 " %s left)", h->stop[0], h->stop[0] == 1 ? "is" : "are");
    }
}
