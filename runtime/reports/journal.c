/* SPDX-License-Identifier: MIT */
/* See journal.h. */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../gen/file.h"
#include "system/process.h"

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
    if (strcmp(path, "-") == 0 || !S_ISREG(status.st_mode))
        return true;
    if (flock(journal->file, LOCK_EX | LOCK_NB) != 0)
        return failed(journal, errno == EWOULDBLOCK ? "another attnrun writes to it" : "cannot be locked", diag);
    size_t size = 0;
    char *text = file_read(path, WHOLE_RESULTS, &size, diag);
    bool good = text != NULL && records_parse(&journal->records, text, size, &journal->good, path, diag);
    if (good && !is_ours(journal, text, size))
        good = diag_error(diag, path, "holds something else than results of attnrun sweep; name another file");
    free(text);
    return good;
}

static bool cut(struct journal *journal, size_t size, struct diag *diag)
{
    struct stat status;
    journal->good = size;
    if (journal->file < 0 || fstat(journal->file, &status) != 0 || !S_ISREG(status.st_mode))
        return true;
    return ftruncate(journal->file, (off_t)size) == 0 || failed(journal, "cannot be cut", diag);
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

/* One write; if a full disk takes only a part of the line, that part is removed. */
static bool write_line(struct journal *journal, const char *line, struct diag *diag)
{
    const size_t length = strlen(line);
    ssize_t done;
    do
        done = write(journal->file, line, length);
    while (done < 0 && errno == EINTR);
    if (done == (ssize_t)length) {
        journal->good += length;
        return true;
    }
    if (done >= 0)
        errno = ENOSPC;
    failed(journal, "cannot be written", diag);
    if (strcmp(journal->path, "-") != 0)
        journal_mend(journal, diag);
    return false;
}

bool journal_add(struct journal *journal, struct record *record, struct diag *diag)
{
    char *line = record_json(record);
    bool good = line != NULL && (journal->file < 0 || write_line(journal, line, diag));
    if (line == NULL)
        diag_environment(diag, NULL, "out of memory");
    free(line);
    if (!good)
        record_free(record);
    else if (!records_add(&journal->records, record))
        good = diag_environment(diag, NULL, "out of memory");
    return good;
}

void journal_close(struct journal *journal)
{
    if (journal->file >= 0)
        close(journal->file);
    records_free(&journal->records);
}
