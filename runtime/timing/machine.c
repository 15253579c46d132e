/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "kernels/compile.h"
#include "base/memory.h"

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
        found = text_copy(colon);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

/* On x86 a model's name; on Arm only numbers, in two fields */
static char *ask_cpu(const struct utsname *system)
{
    HEAP char *model = cpuinfo("model name"), *implementer = cpuinfo("CPU implementer"), *part = cpuinfo("CPU part");
    if (model != NULL && *model != '\0')
        return text_copy(model);
    return implementer == NULL || part == NULL
               ? text_copy(system->machine)
               : text_join("%s implementer %s part %s", system->machine, implementer, part);
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
        machine->kernel = text_join("%s %s", system.sysname, system.release);
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
