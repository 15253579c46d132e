/* SPDX-License-Identifier: MIT */
/* A file, mapped read-only for the program's whole life: all programs that map it share its memory. */
#ifdef _WIN32
#include <windows.h>
static const void *map(const char *path, size_t *size)
{
    const HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    const HANDLE mapping = CreateFileMappingA(file, NULL, PAGE_READONLY, 0, 0, NULL);
    LARGE_INTEGER bytes = {.QuadPart = 0};
    *size = GetFileSizeEx(file, &bytes) ? (size_t)bytes.QuadPart : 0;
    return MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0); /* NULL where a step before has failed */
}
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
static const void *map(const char *path, size_t *size)
{
    struct stat of;
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &of) != 0)
        return NULL;
    *size = (size_t)of.st_size;
    const void *bytes = mmap(NULL, *size, PROT_READ, MAP_SHARED, file, 0);
    return bytes != MAP_FAILED ? bytes : NULL;
}
#endif
