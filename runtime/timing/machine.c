/* SPDX-License-Identifier: MIT */
/* See machine.h. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "kernels/compile.h"

/* The value of the first "name : value" line of /proc/cpuinfo; NULL if there is none. */
static char *cpuinfo(const char *name)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char *line = NULL, *found = NULL;
    size_t room = 0;
    while (file != NULL && found == NULL && getline(&line, &room, file) > 0) {
        char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, name, strlen(name)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        found = strdup(colon);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

/* On x86 a model's name; on Arm only numbers, in two fields */
static char *ask_cpu(const struct utsname *system)
{
    char *model = cpuinfo("model name");
    if (model != NULL && *model != '\0')
        return model;
    free(model);
    char *implementer = cpuinfo("CPU implementer"), *part = cpuinfo("CPU part"), *text = NULL;
    if (implementer == NULL || part == NULL)
        text = strdup(system->machine);
    else if (asprintf(&text, "%s implementer %s part %s", system->machine, implementer, part) < 0)
        text = NULL;
    free(implementer);
    free(part);
    return text;
}

bool machine_ask(struct machine *machine, struct diag *diag)
{
    struct utsname system;
    *machine = (struct machine){.compiler = compile_version(diag), .flags = compile_flags()};
    if (machine->compiler == NULL)
        return false;
    machine->compiler[strcspn(machine->compiler, "\n")] = '\0';
    if (uname(&system) == 0) {
        machine->cpu = ask_cpu(&system);
        if (asprintf(&machine->kernel, "%s %s", system.sysname, system.release) < 0)
            machine->kernel = NULL;
    }
    if (machine->cpu == NULL || machine->kernel == NULL || machine->flags == NULL)
        return diag_environment(diag, NULL, "the machine does not say what it is");
    return true;
}

void machine_free(struct machine *machine)
{
    free(machine->cpu);
    free(machine->kernel);
    free(machine->compiler);
    free(machine->flags);
    *machine = (struct machine){0};
}

#if defined(__x86_64__) && defined(__GNUC__)
/* What the emitted file asks (templates/interface.in) */
static unsigned register_now(enum isa_register which)
{
    unsigned one[4] = {0}, seven[4] = {0}, more[4] = {0}, low = 0, high;
    __get_cpuid(1, &one[0], &one[1], &one[2], &one[3]);
    __get_cpuid_count(7, 0, &seven[0], &seven[1], &seven[2], &seven[3]);
    if (seven[0] >= 1)
        __get_cpuid_count(7, 1, &more[0], &more[1], &more[2], &more[3]);
    if (one[2] >> 27 & 1u) /* OSXSAVE */
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* volatile: not before the test */
    switch (which) {
    case ISA_LEAF_1_ECX: return one[2];
    case ISA_LEAF_7_EBX: return seven[1];
    case ISA_LEAF_7_ECX: return seven[2];
    case ISA_LEAF_7_EDX: return seven[3];
    case ISA_LEAF_7_1_EAX: return more[0];
    case ISA_XCR0: return low;
    }
    return 0;
}
#else
static unsigned register_now(enum isa_register which)
{
    (void)which;
    return 0;
}
#endif

bool machine_may_have(const struct isa *isa)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (isa->guard != NULL && isa->needs[0].name == NULL) /* another architecture's, which asks nothing */
        return false;
#endif
    for (size_t i = 0; i < ISA_NEEDS && isa->needs[i].name != NULL; i++)
        if ((register_now(isa->needs[i].where) & isa->needs[i].bits) != isa->needs[i].bits)
            return false;
    return true;
}
