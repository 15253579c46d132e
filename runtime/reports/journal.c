/* SPDX-License-Identifier: MIT */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

static bool failed(const struct journal *journal, const char *what, struct diag *diag)
{
    diag_environment(diag, journal->path, "%s: %s", what, strerror(errno));
    return false;
}

/* Whether the file has only results, of which the last one may be incomplete: it may be truncated. */
static bool is_ours(const struct journal *journal, const char *text, size_t size)
{
    static const char begin[] = "{\"sweep\":\"";
    const size_t rest = size - journal->good, length = rest < strlen(begin) ? rest : strlen(begin);
    for (size_t i = 0; i < journal->records.count; i++)
        if (record_get(&journal->records.record[i], "sweep") == NULL)
            return false;
    return memcmp(text + journal->good, begin, length) == 0;
}

/* Lines of checked points come last; they go where a result is added. */
static void set_aside(struct journal *journal, const char *text)
{
    struct records *records = &journal->records;
    while (records->count > 0 &&
           strcmp(record_get_text(&records->record[records->count - 1], "status"), JOURNAL_CHECKED) == 0) {
        const char *before = memrchr(text, '\n', journal->good - 1);
        journal->good = before != NULL ? (size_t)(before + 1 - text) : 0;
        records_add(&journal->noted, &records->record[--records->count]);
    }
}

bool journal_open(struct journal *journal, const char *path, struct diag *diag)
{
    struct stat status;
    *journal = (struct journal){.path = path, .file = -1};
    if (path == NULL)
        return true;
    const bool pipe = stat(path, &status) == 0 && S_ISFIFO(status.st_mode); /* without a reader an error, no waiting */
    const int how = pipe ? O_WRONLY | O_NONBLOCK : O_RDWR | O_CREAT | O_APPEND;
    journal->file = strcmp(path, "-") == 0 ? dup(STDOUT_FILENO) : open(path, how | O_CLOEXEC, 0666);
    if (pipe && journal->file >= 0)
        fcntl(journal->file, F_SETFL, 0);
    if (journal->file < 0 || fstat(journal->file, &status) != 0)
        return failed(journal, "cannot be opened", diag);
    journal->regular = strcmp(path, "-") != 0 && S_ISREG(status.st_mode);
    if (!journal->regular)
        return true;
    if (flock(journal->file, LOCK_EX | LOCK_NB) != 0)
        return failed(journal, errno == EWOULDBLOCK ? "another attnrun writes to it" : "cannot be locked", diag);
    size_t size = 0;
    HEAP char *text = file_read(path, WHOLE_RESULTS, &size, diag);
    bool good = text != NULL && records_parse(&journal->records, text, size, &journal->good, path, diag);
    if (good && !is_ours(journal, text, size))
        good = diag_error(diag, path, "holds something else than results of attnrun sweep; name another file");
    if (good)
        set_aside(journal, text);
    return good;
}

static bool cut(struct journal *journal, size_t size, struct diag *diag)
{
    journal->good = size;
    records_free(&journal->noted);
    return !journal->regular || ftruncate(journal->file, (off_t)size) == 0 || failed(journal, "cannot be cut", diag);
}

bool journal_clear(struct journal *journal, struct diag *diag)
{
    records_free(&journal->records);
    return cut(journal, 0, diag);
}

bool journal_mend(struct journal *journal, struct diag *diag)
{
    return cut(journal, journal->good, diag);
}

/* One write of whole lines, of which `good` bytes are of results; if a full disk takes only a part, that is removed. */
static bool write_lines(struct journal *journal, const char *lines, size_t good, struct diag *diag)
{
    const size_t length = strlen(lines);
    ssize_t done;
    do
        done = write(journal->file, lines, length);
    while (done < 0 && errno == EINTR);
    if (done == (ssize_t)length) {
        journal->good += good;
        return true;
    }
    if (done >= 0)
        errno = ENOSPC;
    failed(journal, "cannot be written", diag);
    if (journal->regular)
        journal_mend(journal, diag);
    return false;
}

bool journal_note(struct journal *journal, struct record *record, struct diag *diag)
{
    if (!journal->regular) {
        record_free(record);
        return true;
    }
    HEAP char *line = record_json(record);
    records_add(&journal->noted, record);
    return write_lines(journal, line, 0, diag);
}

bool journal_add(struct journal *journal, struct record *record, struct diag *diag)
{
    const bool precedes = journal->noted.count > 0; /* lines of checked points, which give way */
    struct text lines;
    record_print(record, text_begin(&lines));
    const long length = ftell(lines.out);
    for (size_t i = 0; i < journal->noted.count; i++) {
        struct record *noted = &journal->noted.record[i];
        if (strcmp(record_get_text(noted, "point"), record_get_text(record, "point")) == 0) {
            record_free(noted); /* and the last one in its place */
            *noted = journal->noted.record[--journal->noted.count];
        }
        if (i < journal->noted.count)
            record_print(noted, lines.out);
    }
    text_end(&lines);
    bool good = !precedes || ftruncate(journal->file, (off_t)journal->good) == 0 ||
                failed(journal, "cannot be cut", diag);
    good = good && (journal->file < 0 || write_lines(journal, lines.bytes, (size_t)length, diag));
    free(lines.bytes);
    if (good)
        records_add(&journal->records, record);
    else
        record_free(record);
    return good;
}

void journal_leave(const struct journal *journal)
{
    if (journal->file >= 0)
        close(journal->file);
}

void journal_close(struct journal *journal)
{
    journal_leave(journal);
    records_free(&journal->records);
    records_free(&journal->noted);
}
