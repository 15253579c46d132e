/* SPDX-License-Identifier: MIT */
/* attnrun pack: weights of a file, packed for one instruction set, as something that a compiler or an assembler takes.
 *
 * The emitted pair itself packs, compiled to do nothing else (NAME_PACK_ONLY): this file knows of a block only that it
 * begins with a header of two 32-bit numbers and a 64-bit one, and that floats follow.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../gen/isa.h"
#include "../gen/version.h"
#include "commands.h"
#include "process.h"

enum format { FORMAT_C, FORMAT_BLOB };

struct job {
    const struct options *options;
    struct layer *layer;
    const struct isa *isa;
    enum format format;
    char *stem;         /* of the files: DIR/NAME_packed */
    char *symbol;       /* NAME_packed */
    char *capitals;     /* of the symbol */
    char *name;         /* the layer's, in capitals */
    struct tensors weights;
    struct kernel kernel;
    unsigned char *block;
    size_t bytes;
    struct diag diag;
};

/* ---- what is asked for ----------------------------------------------------------------------------------------- */

static bool choose_isa(struct job *job)
{
    char known[200];
    isa_list_names(known, sizeof known, isa_all(), ", ");
    job->isa = isa_find(job->options->isa);
    if (job->isa == NULL)
        diag_error(&job->diag, "--isa", "\"%s\" is no instruction set, and a block is for one; write one of %s",
                   job->options->isa, known);
    return job->isa != NULL;
}

/* `length` characters of text, and suffix, malloc'd; says so when there is no memory. */
static char *joined(struct job *job, const char *text, size_t length, const char *suffix)
{
    const size_t end = strlen(suffix);
    char *both = malloc(length + end + 1);
    if (both == NULL) {
        diag_environment(&job->diag, NULL, "out of memory");
        return NULL;
    }
    memcpy(both, text, length);
    memcpy(both + length, suffix, end + 1);
    return both;
}

static char *capitals_of(struct job *job, const char *text)
{
    char *capitals = joined(job, text, strlen(text), "");
    for (char *c = capitals; c != NULL && *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    return capitals;
}

static const char *base_name(const char *path)
{
    return strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
}

/* Whether the files' name may stand in quotes in C and in assembler, and is not the pair's, whose header it would
 * write over. */
static bool check_stem(struct job *job)
{
    const char *name = base_name(job->stem);
    bool quotable = true;
    for (const char *c = name; *c != '\0'; c++)
        quotable = quotable && (unsigned char)*c >= ' ' && *c != '"' && *c != '\\';
    if (!quotable)
        diag_error(&job->diag, job->options->out, "cannot stand in an #include; a name without quotes, backslashes and "
                   "control characters is needed");
    else if (strcmp(name, job->layer->name) == 0)
        diag_error(&job->diag, job->options->out, "%s.h is the header of the pair; another name is needed", name);
    else
        return true;
    return false;
}

/* The files' stem and format: from -o, from --format, or both where they agree. */
static bool choose_files(struct job *job)
{
    static const struct { const char *ending; enum format format; } endings[] = {
        {".c", FORMAT_C}, {".S", FORMAT_BLOB}, {".bin", FORMAT_BLOB},
    };
    const char *path = job->options->out, *format = job->options->format;
    const bool blob = format != NULL && strcmp(format, "blob") == 0;
    job->format = blob ? FORMAT_BLOB : FORMAT_C;
    if (format != NULL && !blob && strcmp(format, "c") != 0) {
        diag_error(&job->diag, "--format", "there is no format \"%s\"; c or blob is needed", format);
        return false;
    }
    if (path == NULL) {
        job->stem = joined(job, job->layer->name, strlen(job->layer->name), "_packed");
        return job->stem != NULL;
    }
    const char *name = base_name(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t whole = strlen(name), end = strlen(endings[i].ending);
        if (whole <= end || strcmp(name + whole - end, endings[i].ending) != 0)
            continue;
        if (format != NULL && job->format != endings[i].format) {
            diag_error(&job->diag, path, "is no name for --format %s; it ends in %s", format, endings[i].ending);
            return false;
        }
        job->format = endings[i].format;
        job->stem = joined(job, path, strlen(path) - end, "");
        return job->stem != NULL && check_stem(job);
    }
    diag_error(&job->diag, path, "ends in none of .c (an array), .S and .bin (a blob and its stub); one of them is "
               "needed");
    return false;
}

/* The header's guard is made of the symbol in capitals, as that of the pair is of the layer's name. */
static bool choose_symbol(struct job *job)
{
    const char *given = job->options->symbol, *fault = given != NULL ? layer_name_fault(given) : NULL;
    if (fault != NULL || (given != NULL && strcasecmp(given, job->layer->name) == 0)) {
        diag_error(&job->diag, "--symbol", "\"%s\" is no name for a C object beside the pair: it %s; a letter, then "
                   "letters, digits and _ are needed", given, fault != NULL ? fault : "is the pair's own");
        return false;
    }
    job->symbol = given != NULL ? joined(job, given, strlen(given), "")
                                : joined(job, job->layer->name, strlen(job->layer->name), "_packed");
    job->capitals = job->symbol != NULL ? capitals_of(job, job->symbol) : NULL;
    job->name = capitals_of(job, job->layer->name);
    return job->capitals != NULL && job->name != NULL;
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

static const float *floats(const struct job *job, enum layer_tensor tensor)
{
    const struct tensor *found = tensors_find(&job->weights, layer_tensor_name(tensor));
    return found != NULL ? found->data : NULL;
}

static bool pack(struct job *job)
{
    const struct kernel_weights weights = {
        .w_q = floats(job, TENSOR_W_Q), .b_q = floats(job, TENSOR_B_Q), .w_k = floats(job, TENSOR_W_K),
        .b_k = floats(job, TENSOR_B_K), .w_v = floats(job, TENSOR_W_V), .b_v = floats(job, TENSOR_B_V),
        .w_o = floats(job, TENSOR_W_O), .b_o = floats(job, TENSOR_B_O),
    };
    job->bytes = job->kernel.call->packed_bytes;
    job->block = aligned_alloc(KERNEL_ALIGNMENT,
                               (job->bytes + KERNEL_ALIGNMENT - 1) / KERNEL_ALIGNMENT * KERNEL_ALIGNMENT);
    if (job->block == NULL) {
        diag_environment(&job->diag, NULL, "out of memory");
        return false;
    }
    memset(job->block, 0, job->bytes); /* gaps too are the same in every run */
    const int error = job->kernel.call->pack(job->block, &weights, job->isa->id);
    if (error != KERNEL_OK)
        diag_error(&job->diag, job->options->weights.path, "the weights are refused: %s",
                   job->kernel.call->strerror(error));
    return error == KERNEL_OK;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

#define LICENCE "SPDX-License-Identifier: 0BSD. What attnrun adds is yours, without conditions; " \
                "the weights stay whose they are."

static void write_banner(const struct job *job, FILE *out, const char *ending, const char *what)
{
    fprintf(out, "/* %s%s - the weights of %s, packed for %s by attnrun %s%s. Do not edit.\n *\n * %s\n */\n",
            base_name(job->stem), ending, job->layer->name, job->isa->name, ATTNGEN_VERSION, what, LICENCE);
}

static void write_header(const struct job *job, FILE *out)
{
    const char *symbol = job->symbol, *name = job->layer->name;
    fprintf(out, "/* %s.h - the weights of %s, packed for %s by attnrun %s. Do not edit.\n *\n"
            " * On a machine that has %s, programs call\n *     %s_forward(%s, &args, scratch)\n"
            " * without packing first. The block is constant and may lie in read-only memory.\n *\n * %s\n */\n",
            base_name(job->stem), name, job->isa->name, ATTNGEN_VERSION, job->isa->name, name, symbol, LICENCE);
    fprintf(out, "#ifndef %s_INTERFACE_H\n#define %s_INTERFACE_H\n\n#include <stdint.h>\n\n", job->capitals,
            job->capitals);
    fprintf(out, "#if defined(%s_PACKED_BYTES) && %s_PACKED_BYTES < %zu\n"
            "#error \"%s.h: its block is larger than %s.h allows\"\n#endif\n\n", job->name, job->name, job->bytes,
            base_name(job->stem), name);
    fprintf(out, "#ifdef __cplusplus\nextern \"C\" {\n#define %s_ALIGNED alignas(64)\n#else\n"
            "#define %s_ALIGNED _Alignas(64)\n#endif\n\n", job->capitals, job->capitals);
    fprintf(out, "struct %s_block {\n    uint32_t magic, isa;\n"
            "    uint64_t layer; /* tells it from the blocks of other layers, plans and versions */\n"
            "    float numbers[%zu];\n};\n"
            "/* an array, so that its name is a pointer */\n%s_ALIGNED extern const struct %s_block %s[1];\n\n", symbol,
            (job->bytes - sizeof(struct kernel_header)) / sizeof(float), job->capitals, symbol, symbol);
    fprintf(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

static void write_c(const struct job *job, FILE *out)
{
    enum { ROW = 6 };
    struct kernel_header header;
    memcpy(&header, job->block, sizeof header);
    const float *numbers = (const float *)(const void *)job->block + sizeof header / sizeof(float);
    const size_t count = (job->bytes - sizeof header) / sizeof(float);
    write_banner(job, out, ".c", "");
    fprintf(out, "#include \"%s.h\"\n\n", base_name(job->stem));
    fprintf(out, "_Alignas(64) const struct %s_block %s[1] = {{\n"
            "    0x%08" PRIx32 "u, %" PRIu32 "u, 0x%016" PRIx64 "u, {\n",
            job->symbol, job->symbol, header.magic, header.isa, header.layer);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%af,%s", i % ROW == 0 ? "        " : " ", (double)numbers[i],
                i % ROW == ROW - 1 || i == count - 1 ? "\n" : "");
    fprintf(out, "    }\n}};\n");
}

/* Sections, alignment and symbols as ELF, Mach-O and COFF want them; '%progbits' since '@' begins a comment on Arm. */
static void write_stub(const struct job *job, FILE *out)
{
    const char *symbol = job->symbol, *file = base_name(job->stem);
    write_banner(job, out, ".S", "; the numbers are little-endian");
    fprintf(out, "#ifndef %s_FILE /* looked for in the current folder and in those of -I */\n"
            "#define %s_FILE \"%s.bin\"\n#endif\n", job->capitals, job->capitals, file);
    fprintf(out, "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
            "#error \"%s.bin is little-endian; attnrun pack --format c serves both byte orders\"\n#endif\n", file);
    fprintf(out, "#if defined(__APPLE__) || (defined(_WIN32) && defined(__i386__)) /* C names have a _ in front */\n"
            "#define %s_LABEL _%s\n#else\n#define %s_LABEL %s\n#endif\n\n", job->capitals, symbol, job->capitals,
            symbol);
    fprintf(out, "#if defined(__APPLE__)\n    .section __TEXT,__const\n"
            "#elif defined(_WIN32) || defined(__CYGWIN__)\n    .section .rdata,\"dr\"\n"
            "#else\n    .section .rodata.%s,\"a\",%%progbits\n    .type %s_LABEL, %%object\n"
            "    .size %s_LABEL, %zu\n#endif\n",
            symbol, job->capitals, job->capitals, job->bytes);
    fprintf(out, "    .globl %s_LABEL\n    .p2align 6 /* 64 bytes */\n%s_LABEL:\n    .incbin %s_FILE\n", job->capitals,
            job->capitals, job->capitals);
    fprintf(out, "#if defined(__ELF__)\n    .section .note.GNU-stack,\"\",%%progbits /* needs no executable stack */\n"
            "#endif\n");
}

static void write_blob(const struct job *job, FILE *out)
{
    fwrite(job->block, 1, job->bytes, out);
}

/* Made in memory, then written whole or not at all; what is longest comes first, since that is what may not fit. */
static bool write_file(struct job *job, const char *ending, void (*write)(const struct job *job, FILE *out))
{
    char *path = joined(job, job->stem, strlen(job->stem), ending), *text = NULL;
    struct piece piece = {0};
    FILE *out = path != NULL ? open_memstream(&text, &piece.bytes) : NULL;
    if (out != NULL)
        write(job, out);
    bool good = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    if (path != NULL && !good)
        diag_environment(&job->diag, path, "out of memory");
    piece.data = text;
    good = good && file_replace(path, &piece, 1, &job->diag);
    free(text);
    free(path);
    return good;
}

static bool write_files(struct job *job)
{
    if (job->format == FORMAT_BLOB && (!write_file(job, ".bin", write_blob) || !write_file(job, ".S", write_stub)))
        return false;
    return (job->format != FORMAT_C || write_file(job, ".c", write_c)) && write_file(job, ".h", write_header);
}

int command_pack(const struct options *options)
{
    struct job job = {.options = options};
    struct compile_options compile = options->compile;
    compile.pack_only = true;
    job.layer = layer_read(options->specs[0], options->compile.set, options->compile.set_count, &job.diag);
    bool good = job.layer != NULL && choose_isa(&job) && choose_files(&job) && choose_symbol(&job) &&
                weights_read(&job.weights, job.layer, &options->weights, &job.diag) &&
                compile_kernel(&job.kernel, options->specs[0], job.layer->name, &compile, &job.diag) && pack(&job) &&
                write_files(&job);
    if (good)
        printf("packed for %s: %s.%s, %zu bytes as %s\n", job.isa->name, job.stem,
               job.format == FORMAT_BLOB ? "bin, .S and .h" : "c and .h", job.bytes, job.symbol);
    fflush(stdout);
    const int code = diag_report(&job.diag, stderr);
    diag_free(&job.diag);
    tensors_free(&job.weights);
    kernel_unload(&job.kernel);
    layer_free(job.layer);
    free(job.block);
    free(job.stem);
    free(job.symbol);
    free(job.capitals);
    free(job.name);
    return code;
}
