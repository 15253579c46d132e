/* SPDX-License-Identifier: MIT */
/* The library keeps its symbol table, which has static functions too; what the loader maps does not. */
#include "load.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* "keys_avx2", "pass_avx2.constprop.0" */
static bool is_of_isa(const char *name, const char *isa)
{
    const size_t stem = strcspn(name, "."), length = strlen(isa);
    return stem > length && name[stem - length - 1] == '_' && strncmp(name + stem - length, isa, length) == 0;
}

/* The table that starts at `offset`, if the file contains all of it */
static const void *table(const char *bytes, size_t size, uint64_t offset, uint64_t length)
{
    return offset <= size && length <= size - offset ? bytes + offset : NULL;
}

static int by_address(const void *a, const void *b)
{
    const ElfW(Sym) *l = a, *r = b;
    return (l->st_value > r->st_value) - (l->st_value < r->st_value);
}

/* Adds up the functions of a copy of the symbols. */
static size_t add_up(const ElfW(Sym) *symbols, size_t count, const char *names, size_t names_size, const char *isa)
{
    HEAP ElfW(Sym) *own = malloc(count * sizeof *own + 1);
    size_t kept = 0, bytes = 0;
    for (size_t i = 0; own != NULL && i < count; i++)
        if ((symbols[i].st_info & 0xf) == STT_FUNC && symbols[i].st_name < names_size &&
            is_of_isa(names + symbols[i].st_name, isa))
            own[kept++] = symbols[i];
    if (own != NULL)
        qsort(own, kept, sizeof *own, by_address);
    for (size_t i = 0; i < kept; i++)
        if (i == 0 || own[i].st_value != own[i - 1].st_value)
            bytes += own[i].st_size;
    return bytes;
}

static size_t of_file(const char *bytes, size_t size, const char *isa)
{
    const ElfW(Ehdr) *head = table(bytes, size, 0, sizeof *head);
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_shentsize != sizeof(ElfW(Shdr)))
        return 0;
    const ElfW(Shdr) *section = table(bytes, size, head->e_shoff, (uint64_t)head->e_shnum * sizeof *section);
    for (size_t i = 0; section != NULL && i < head->e_shnum; i++) {
        if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= head->e_shnum)
            continue;
        const ElfW(Shdr) *strings = &section[section[i].sh_link];
        const ElfW(Sym) *symbols = table(bytes, size, section[i].sh_offset, section[i].sh_size);
        const char *names = table(bytes, size, strings->sh_offset, strings->sh_size);
        if (symbols != NULL && names != NULL && strings->sh_size > 0 && names[strings->sh_size - 1] == '\0')
            return add_up(symbols, section[i].sh_size / sizeof *symbols, names, strings->sh_size, isa);
    }
    return 0;
}

size_t code_bytes(const struct kernel *kernel, const char *isa)
{
    struct stat status;
    if (kernel->file < 0 || fstat(kernel->file, &status) != 0 || status.st_size <= 0)
        return 0;
    const size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, kernel->file, 0);
    if (bytes == MAP_FAILED)
        return 0;
    const size_t found = of_file(bytes, size, isa);
    munmap(bytes, size);
    return found;
}
