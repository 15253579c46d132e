/* SPDX-License-Identifier: MIT */
/* Results as JSON lines, and all that is written of them. The first byte says what the rest is:
 *
 *   j  lines: each record, printed, is read as the same; table, CSV and page of them
 *   g  a journal: it is refused, or grows by a result, and by nothing else
 *   m  files for merge, parted by lines that begin with "---"
 *
 * A CSV has a field for each column and a line for each record, with the records' own texts, disarmed; a page is well formed whatever
 * they hold.
 */
#include "fuzz.h"

#include <sys/stat.h>

#include "../../runtime/commands/commands.h"
#include "../../runtime/reports/columns.h"
#include "../../runtime/reports/journal.h"
#include "../../runtime/reports/record.h"
#include "../../runtime/reports/report.h"
#include "base/text.h"

/* ---- what was written ------------------------------------------------------------------------------------------ */

/* A field of a CSV at *at, unquoted; the character behind it. */
static int next_field(const char **at, char *text)
{
    const bool quoted = **at == '"';
    *at += quoted;
    while (**at != '\0' && (quoted ? (*at)[0] != '"' || (*at)[1] == '"' : strchr(",\r\n", **at) == NULL)) {
        *at += quoted && **at == '"';
        *text++ = *(*at)++;
    }
    *text = '\0';
    REQUIRE(!quoted || **at == '"');
    *at += quoted;
    REQUIRE(**at == ',' || **at == '\n');
    return *(*at)++;
}

/* A cell without what keeps spreadsheets from computing it. One that begins as a formula has an apostrophe, unless it is a
 * number, or flags of compilers with nothing that calls; no other cell has one that is not the record's. */
static const char *plain_cell(const char *cell, const char *text, bool flags)
{
    char *end;
    const bool begins = *text != '\0' && strchr("=+-@\t\r", *text) != NULL;
    strtod(text, &end);
    const bool number = end != text && *end == '\0' && *text != '\t' && *text != '\r';
    const bool option = flags && *text == '-' && strpbrk(text, "|!(") == NULL;
    if (!begins || number || option)
        return cell;
    REQUIRE(*cell == '\'', "%s", cell);
    return cell + 1;
}

/* A text as files for people have it, without characters that turn or end what is read */
static char *disarmed(const char *text)
{
    char *copy = strdup(text);
    REQUIRE(copy != NULL);
    text_disarm(copy);
    return copy;
}

static void check_csv(const char *csv, const struct records *records)
{
    struct columns columns;
    char *field = malloc(strlen(csv) + 1);
    columns_make(&columns, records);
    REQUIRE(field != NULL);
    for (size_t row = 0; row <= records->count; row++)
        for (size_t c = 0; c < columns.count; c++) {
            const int end = next_field(&csv, field);
            REQUIRE(end == (c + 1 < columns.count ? ',' : '\n'));
            const char *name = columns.column[c].name;
            const char *text = row == 0 ? name : record_get_text(&records->record[row - 1], name);
            char *shown = disarmed(text);
            REQUIRE(strcmp(plain_cell(field, text, row > 0 && strcmp(name, "flags") == 0), shown) == 0, "%s", field);
            free(shown);
        }
    REQUIRE(*csv == '\0');
    columns_free(&columns);
    free(field);
}

#define MAX_DEPTH 64

static bool is_void(const char *name, size_t length)
{
    static const char *const names[] = {"meta", "br", "hr", "img", "input", "link", "wbr", "col"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return true;
    return false;
}

static void check_entity(const char *at)
{
    static const char *const entities[] = {"amp;", "lt;", "gt;", "quot;", "#39;", "nbsp;"};
    bool known = false;
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        known = known || strncmp(at + 1, entities[i], strlen(entities[i])) == 0;
    REQUIRE(known || (at[1] == '#' && at[2] >= '0' && at[2] <= '9'), "%.60s", at);
}

/* The end of a tag whose name ends at `at`: attributes are NAME or NAME="TEXT" (or in single quotes). */
static const char *tag_end(const char *at)
{
    while (*at != '>') {
        const char quote = *at;
        REQUIRE(quote != '\0' && quote != '<', "%.60s", at);
        at++;
        while ((quote == '"' || quote == '\'') && *at != quote) {
            REQUIRE(*at != '\0' && *at != '<', "%.60s", at);
            if (*at == '&')
                check_entity(at);
            at++;
        }
        at += quote == '"' || quote == '\'';
    }
    return at + 1;
}

/* Elements end in the order in which they began, and no text is taken for one. */
static void check_page(const char *page)
{
    struct { const char *name; size_t length; } open[MAX_DEPTH];
    size_t depth = 0;
    for (const char *at = page; *at != '\0';) {
        if (*at == '&')
            check_entity(at);
        REQUIRE(*at != '>', "%.60s", at > page + 30 ? at - 30 : page);
        if (*at != '<') {
            at++;
            continue;
        }
        if (at[1] == '!' || at[1] == '?') {
            at = tag_end(at + 2);
            continue;
        }
        const bool closing = at[1] == '/';
        const char *name = at + 1 + closing;
        const size_t length = strcspn(name, " \t\n/>");
        at = tag_end(name + length);
        if (closing) {
            REQUIRE(depth > 0, "%.60s", name);
            depth--;
            REQUIRE(open[depth].length == length && memcmp(open[depth].name, name, length) == 0, "%.60s", name);
        } else if (at[-2] != '/' && !is_void(name, length)) {
            REQUIRE(depth < MAX_DEPTH, "%.60s", name);
            open[depth].name = name;
            open[depth++].length = length;
            if (strncmp(name, "script", 6) == 0 || strncmp(name, "style", 5) == 0) {
                at = strstr(at, name[1] == 'c' ? "</script>" : "</style>");
                REQUIRE(at != NULL);
            }
        }
    }
    REQUIRE(depth == 0);
}

/* ---- what is done with them ------------------------------------------------------------------------------------ */

/* A command's standard output as a text; what it says of errors goes nowhere. Without memory for it, the end. */
struct capture {
    char *text;
    size_t length;
    FILE *out, *error;
};

static void capture_begin(struct capture *c)
{
    static FILE *nowhere;
    if (nowhere == NULL)
        nowhere = fopen("/dev/null", "w");
    c->out = stdout;
    c->error = stderr;
    stdout = open_memstream(&c->text, &c->length);
    stderr = nowhere;
}

static void capture_end(struct capture *c)
{
    fclose(stdout);
    stdout = c->out;
    stderr = c->error;
}

static void check_json(const struct record *record)
{
    struct record again;
    char *line = record_json(record);
    REQUIRE(line != NULL && line[strlen(line) - 1] == '\n' && strcspn(line, "\n") == strlen(line) - 1);
    const char *why = record_parse(&again, line, strlen(line) - 1);
    REQUIRE(why == NULL && again.count == record->count, "%s: %s", why != NULL ? why : "another count", line);
    for (size_t i = 0; i < again.count; i++)
        REQUIRE(strcmp(again.field[i].name, record->field[i].name) == 0 && again.field[i].number == record->field[i].number &&
                strcmp(again.field[i].value, record->field[i].value) == 0);
    record_free(&again);
    free(line);
}

static char *report(struct records *records, const char *csv, const char *html)
{
    const struct options options = {.csv = csv, .html = html};
    struct capture capture;
    struct diag diag = {0};
    capture_begin(&capture);
    const bool good = report_all(records, &options, REPORT_PAGE, &diag);
    capture_end(&capture);
    fuzz_diag(&diag, good);
    REQUIRE(good && capture.text != NULL);
    return capture.text;
}

static void try_lines(const char *text, size_t length)
{
    struct records records = {0};
    struct diag diag = {0};
    size_t complete = 0;
    const bool good = records_parse(&records, text, length, &complete, "fuzz.jsonl", &diag);
    fuzz_diag(&diag, good);
    REQUIRE(!good || (complete <= length && (complete == 0 || text[complete - 1] == '\n')));
    for (size_t i = 0; i < records.count; i++)
        check_json(&records.record[i]);
    if (good && records.count > 0) {
        free(report(&records, NULL, NULL));
        char *csv = report(&records, "-", NULL), *page = report(&records, NULL, "-");
        check_csv(csv, &records);
        check_page(page);
        free(csv);
        free(page);
    }
    records_free(&records);
}

static void try_journal(const char *text, size_t length)
{
    const char *path = fuzz_file("fuzz.jsonl", text, length);
    struct journal journal;
    struct diag diag = {0};
    struct record record = {0};
    struct stat status;
    const bool good = journal_open(&journal, path, &diag);
    fuzz_diag(&diag, good);
    const size_t before = journal.records.count;
    if (good) {
        REQUIRE(journal.good <= length && journal_mend(&journal, &diag));
        REQUIRE(stat(path, &status) == 0 && (size_t)status.st_size == journal.good);
        record_text(&record, "sweep", "fuzz");
        REQUIRE(journal_add(&journal, &record, &diag));
    }
    journal_close(&journal);
    if (good) {
        REQUIRE(journal_open(&journal, path, &diag), "%s", diag.messages[0]);
        REQUIRE(journal.records.count == before + 1 && stat(path, &status) == 0 && (size_t)status.st_size == journal.good);
        journal_close(&journal);
    } else {
        REQUIRE(stat(path, &status) == 0 && (size_t)status.st_size == length);
    }
    fuzz_diag(&diag, true);
}

#define MAX_MERGED 4

static void try_merge(char *text)
{
    static const char *const names[MAX_MERGED] = {"a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"};
    const char *paths[MAX_MERGED];
    struct options options = {.specs = paths, .csv = "-"};
    struct capture capture;
    for (char *next; text != NULL && options.spec_count < MAX_MERGED; text = next) {
        if ((next = strstr(text, "\n---")) != NULL)
            *++next = '\0';
        paths[options.spec_count] = fuzz_file(names[options.spec_count], text, strlen(text));
        options.spec_count++;
        if (next != NULL && (next = strchr(next + 1, '\n')) != NULL)
            next++;
    }
    capture_begin(&capture);
    const int code = command_merge(&options);
    capture_end(&capture);
    REQUIRE(code == EXIT_GOOD || code == EXIT_CHECK_FAILED || code == EXIT_USAGE, "%d", code);
    REQUIRE((code == EXIT_USAGE) == (capture.length == 0), "%d %s", code, capture.text);
    free(capture.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    switch (data[0]) {
    case 'j': try_lines(text, size - 1); break;
    case 'g': try_journal(text, size - 1); break;
    case 'm': try_merge(text); break;
    default: break;
    }
    free(text);
    return 0;
}
