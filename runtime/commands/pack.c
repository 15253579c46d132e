/* SPDX-License-Identifier: MIT */
/* attnrun pack: weights of a file, packed for one or several instruction sets, as input for a compiler or an assembler:
 * a block for each set, one after the other, in the order of isa_table.
 *
 * The emitted pair packs, compiled only for that (NAME_PACK_ONLY). About a block this file knows only that it begins
 * with two headers, that floats follow, and that the first header has the distance to the next block.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/name.h"
#include "base/replace.h"
#include "base/version.h"
#include "commands.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "base/memory.h"

enum format { FORMAT_C, FORMAT_BLOB, FORMAT_BOTH };

struct job {
    const struct options *options;
    struct layer *layer;
    unsigned isas;      /* rows of isa_table: a block for each */
    size_t blocks;
    char isa_names[200]; /* joined by commas */
    enum format format;
    char *stem;         /* of the files: DIR/NAME_packed */
    char *symbol;       /* NAME_packed */
    char *capitals;     /* of the symbol */
    char *name;         /* the layer's, in capitals */
    struct tensors weights;
    struct kernel kernel;
    unsigned char *block; /* the first; the others follow */
    size_t bytes;         /* of one */
    struct diag diag;
};

/* ---- what is asked for ----------------------------------------------------------------------------------------- */

static bool choose_isas(struct job *job)
{
    const unsigned possible = plan_isas(job->layer, isa_all());
    job->isas = options_blocks(job->options, possible, &job->diag);
    for (size_t row = 0; row < isa_count; row++) {
        job->blocks += job->isas >> row & 1u;
        if ((job->isas & ~possible) >> row & 1u)
            diag_error(&job->diag, "--isa", "%s: %s", isa_table[row].name, call_why_skipped(job->layer, row));
    }
    if (job->diag.errors > 0)
        return false;
    isa_list_names(job->isa_names, sizeof job->isa_names, job->isas, ",");
    return true;
}

static const char *base_name(const char *path) { return strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path; }

/* Whether the files' name can be quoted in C and in assembler, and is not the pair's, whose header it would
 * overwrite */
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

/* The files' stem and format: from -o, from --format, or from both if they agree */
static bool choose_files(struct job *job)
{
    static const struct { const char *ending; enum format format; } endings[] = {
        {".c", FORMAT_C}, {".S", FORMAT_BLOB}, {".bin", FORMAT_BLOB},
    };
    const char *path = job->options->out, *format = job->options->format;
    const bool blob = format != NULL && strcmp(format, "blob") == 0;
    job->format = blob ? FORMAT_BLOB : FORMAT_C;
    if (path == NULL) {
        job->stem = text_join("%s_packed", job->layer->name);
        return true;
    }
    const char *name = base_name(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t whole = strlen(name), end = strlen(endings[i].ending);
        if (whole <= end || strcmp(name + whole - end, endings[i].ending) != 0)
            continue;
        if (format != NULL && job->format != endings[i].format)
            return diag_error(&job->diag, path, "is not a name for --format %s; it ends in %s", format,
                              endings[i].ending);
        job->format = endings[i].format;
        job->stem = text_join("%.*s", (int)(strlen(path) - end), path);
        return check_stem(job);
    }
    return diag_error(&job->diag, path, "ends in none of .c (an array), .S and .bin (a blob and its stub); one of them "
                      "is needed");
}

/* The header's guard is the symbol in capitals, as the pair's is the layer's name. */
static bool choose_symbol(struct job *job)
{
    const char *given = job->options->symbol, *fault = given != NULL ? layer_name_fault(given) : NULL;
    if (fault != NULL || (given != NULL && strcasecmp(given, job->layer->name) == 0))
        return diag_error(&job->diag, "--symbol", "\"%s\" is not a name for a C object beside the pair: it %s; a "
                          "letter, then letters, digits and _ are needed", given,
                          fault != NULL ? fault : "is the pair's own");
    job->symbol = given != NULL ? text_copy(given) : text_join("%s_packed", job->layer->name);
    job->capitals = text_capitals(job->symbol, strlen(job->symbol));
    job->name = text_capitals(job->layer->name, strlen(job->layer->name));
    return true;
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

/* The layer's weights, as a kernel takes them; they point into `in`. */
static struct kernel_weights weights_of(const struct job *job, struct inputs *in)
{
    *in = (struct inputs){0};
    for (enum layer_tensor t = 0; t < TENSOR_COUNT; t++)
        if (tensor_is_packed(layer_tensor_row(t)->kind) && layer_has_tensor(job->layer, t)) {
            const struct tensor *found = tensors_find(&job->weights, layer_tensor_called(job->layer, t));
            in->tensor[t] = found != NULL ? found->data : NULL;
        }
    return kernel_weights_of(in);
}

/* Writes the distance to the next block into a block. */
static void chain(unsigned char *block, size_t next)
{
    struct kernel_header header;
    memcpy(&header, block, sizeof header);
    header.next = next;
    memcpy(block, &header, sizeof header);
}

static bool pack(struct job *job)
{
    struct inputs in;
    const struct kernel_weights weights = weights_of(job, &in);
    const struct kernel_table *kernel = job->kernel.call;
    job->bytes = (kernel->packed_bytes + KERNEL_ALIGNMENT - 1) / KERNEL_ALIGNMENT * KERNEL_ALIGNMENT;
    job->block =
        job->bytes <= SIZE_MAX / job->blocks ? aligned_alloc(KERNEL_ALIGNMENT, job->blocks * job->bytes) : NULL;
    if (job->block == NULL)
        return diag_environment(&job->diag, NULL, "out of memory");
    memset(job->block, 0, job->blocks * job->bytes); /* gaps too have the same bytes in every run */
    unsigned char *block = job->block;
    for (size_t row = 0, packed = 0; row < isa_count; row++) {
        if ((job->isas >> row & 1u) == 0)
            continue;
        const int error = kernel->pack(block, &weights, isa_table[row].id);
        if (error != KERNEL_OK)
            return diag_error(&job->diag, job->options->weights.path, "the weights are refused: %s",
                              kernel->strerror(error));
        chain(block, ++packed < job->blocks ? job->bytes : 0);
        block += job->bytes;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

#define LICENCE "SPDX-License-Identifier: 0BSD. What attnrun adds is yours, without conditions; " \
                "the weights stay whose they are."

static void write_banner(const struct job *job, FILE *out, const char *ending, const char *what)
{
    fprintf(out, "/* %s%s - the weights of %s, packed for %s by attnrun %s%s. Do not edit.\n *\n * %s\n */\n",
            base_name(job->stem), ending, job->layer->name, job->isa_names, ATTNGEN_VERSION, what, LICENCE);
}

/* 0: a block is only its header */
static size_t numbers_of(const struct job *job)
{
    return (job->bytes - KERNEL_HEADERS * sizeof(struct kernel_header)) / sizeof(float);
}

/* Whether some weights take less than four bytes: a block is then words of several of them, and no floats. */
static bool is_narrow(const struct job *job)
{
    return job->layer->weight_type != TENSOR_F32 || layer_rounds(job->layer);
}

static void write_byte_order(const struct job *job, const char *ending, FILE *out)
{
    fprintf(out, "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
            "#error \"%s%s is little-endian; ", base_name(job->stem), ending);
    if (is_narrow(job))
        fprintf(out, "on the target, %s_pack packs for its byte order\"\n#endif\n", job->layer->name);
    else
        fprintf(out, "attnrun pack --format c serves both byte orders\"\n#endif\n");
}

static void write_header(const struct job *job, FILE *out)
{
    const char *symbol = job->symbol, *name = job->layer->name;
    fprintf(out,
            "/* %s.h - the weights of %s, packed for %s by attnrun %s. Do not edit.\n *\n"
            " * A program opens them once, which asks the machine what it has and copies nothing:\n"
            " *     const void *packed;\n"
            " *     int error = %s_open(%s, sizeof %s, &packed);\n"
            " * and then calls %s_forward(packed, &args, scratch). On a machine that has none of these "
            "instruction sets\n"
            " * error is %s_ERROR_ISA. The blocks are constant and may lie in read-only memory.\n *\n * %s\n */\n",
            base_name(job->stem), name, job->isa_names, ATTNGEN_VERSION, name, symbol, symbol, name, job->name,
            LICENCE);
    fprintf(out, "#ifndef %s_INTERFACE_H\n#define %s_INTERFACE_H\n\n#include <stdint.h>\n\n", job->capitals,
            job->capitals);
    if (job->blocks == 1) /* with several blocks the pair may lack the largest one */
        fprintf(out, "#if defined(%s_PACKED_BYTES) && %s_PACKED_BYTES < %zu\n"
                "#error \"%s.h: its block is larger than %s.h allows\"\n#endif\n\n", job->name, job->name, job->bytes,
                base_name(job->stem), name);
    fprintf(out, "#ifdef __cplusplus\nextern \"C\" {\n#define %s_ALIGNED alignas(64)\n#else\n"
            "#define %s_ALIGNED _Alignas(64)\n#endif\n\n", job->capitals, job->capitals);
    fprintf(out, "struct %s_block {\n    struct {\n        uint32_t magic, isa;\n"
            "        uint64_t layer; /* tells it from the blocks of other layers, plans and versions */\n"
            "        uint64_t next;  /* bytes to the next block; 0: this is the last */\n"
            "        uint64_t zero;\n    } header[%d];\n", symbol, KERNEL_HEADERS);
    if (numbers_of(job) > 0)
        fprintf(out, "    %s numbers[%zu];\n", is_narrow(job) ? "uint32_t" : "float", numbers_of(job));
    fprintf(out, "};\n%s_ALIGNED extern const struct %s_block %s[%zu];\n\n", job->capitals, symbol, symbol,
            job->blocks);
    fprintf(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

static void write_block(const struct job *job, const unsigned char *block, FILE *out)
{
    enum { ROW = 6 };
    struct kernel_header header[KERNEL_HEADERS];
    memcpy(header, block, sizeof header);
    const unsigned char *numbers = block + sizeof header;
    const size_t count = numbers_of(job);
    fprintf(out, "    {{");
    for (int i = 0; i < KERNEL_HEADERS; i++)
        fprintf(out, "%s{0x%08" PRIx32 "u, %" PRIu32 "u, 0x%016" PRIx64 "u, %" PRIu64 "u, 0}", i > 0 ? ",\n      " : "",
                header[i].magic, header[i].isa, header[i].layer, header[i].next);
    fprintf(out, count > 0 ? "}, {\n" : "}},\n");
    for (size_t i = 0; i < count; i++, numbers += 4) {
        float number;
        uint32_t word;
        memcpy(&number, numbers, sizeof number);
        memcpy(&word, numbers, sizeof word);
        fputs(i % ROW == 0 ? "        " : " ", out);
        if (is_narrow(job))
            fprintf(out, "0x%08" PRIx32 "u,", word);
        else
            fprintf(out, "%af,", (double)number);
        if (i % ROW == ROW - 1 || i == count - 1)
            fputc('\n', out);
    }
    if (count > 0)
        fprintf(out, "    }},\n");
}

static void write_c(const struct job *job, FILE *out)
{
    write_banner(job, out, ".c", is_narrow(job) ? "; the words are little-endian" : "");
    fprintf(out, "#include \"%s.h\"\n\n", base_name(job->stem));
    if (is_narrow(job))
        write_byte_order(job, ".c", out);
    fprintf(out, "_Alignas(64) const struct %s_block %s[%zu] = {\n", job->symbol, job->symbol, job->blocks);
    for (size_t i = 0; i < job->blocks; i++)
        write_block(job, job->block + i * job->bytes, out);
    fprintf(out, "};\n");
}

/* Sections, alignment and symbols for ELF, Mach-O and COFF; '%progbits' since '@' begins a comment on Arm */
static void write_stub(const struct job *job, FILE *out)
{
    const char *symbol = job->symbol, *file = base_name(job->stem);
    write_banner(job, out, ".S", "; the numbers are little-endian");
    fprintf(out, "#ifndef %s_FILE /* looked for in the current folder and in those of -I */\n"
            "#define %s_FILE \"%s.bin\"\n#endif\n", job->capitals, job->capitals, file);
    write_byte_order(job, ".bin", out);
    fprintf(out, "#if defined(__APPLE__) || (defined(_WIN32) && defined(__i386__)) /* C names have a _ in front */\n"
            "#define %s_LABEL _%s\n#else\n#define %s_LABEL %s\n#endif\n\n", job->capitals, symbol, job->capitals,
            symbol);
    fprintf(out, "#if defined(__APPLE__)\n    .section __TEXT,__const\n"
            "#elif defined(_WIN32) || defined(__CYGWIN__)\n    .section .rdata,\"dr\"\n"
            "#else\n    .section .rodata.%s,\"a\",%%progbits\n    .type %s_LABEL, %%object\n"
            "    .size %s_LABEL, %zu\n#endif\n",
            symbol, job->capitals, job->capitals, job->blocks * job->bytes);
    fprintf(out, "    .globl %s_LABEL\n    .p2align 6 /* 64 bytes */\n%s_LABEL:\n    .incbin %s_FILE\n", job->capitals,
            job->capitals, job->capitals);
    fprintf(out, "#if defined(__ELF__)\n    .section .note.GNU-stack,\"\",%%progbits /* needs no executable stack */\n"
            "#endif\n");
}

static void write_blob(const struct job *job, FILE *out)
{
    fwrite(job->block, 1, job->blocks * job->bytes, out);
}

/* Made in memory, then written all or none; the longest file comes first, as it may not fit. */
static bool write_files(struct job *job)
{
    static const struct {
        enum format format; /* or of both */
        const char *ending;
        void (*write)(const struct job *job, FILE *out);
    } all[] = {{FORMAT_BLOB, ".bin", write_blob}, {FORMAT_BLOB, ".S", write_stub}, {FORMAT_C, ".c", write_c},
               {FORMAT_BOTH, ".h", write_header}};
    struct file_text files[sizeof all / sizeof *all];
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct text text;
        if (all[i].format != FORMAT_BOTH && all[i].format != job->format)
            continue;
        all[i].write(job, text_begin(&text));
        const char *const bytes = text_end(&text);
        files[count++] = (struct file_text){text_join("%s%s", job->stem, all[i].ending), bytes, text.length};
    }
    const bool good = files_replace(files, count, true, &job->diag);
    for (size_t i = 0; i < count; i++) {
        free((char *)files[i].path);
        free((char *)files[i].text);
    }
    return good;
}

int command_pack(const struct options *options)
{
    if (options->all)
        return command_pack_model(options);
    struct job job = {.options = options};
    struct compile_options compile = options->compile;
    compile.pack_only = true;
    compile.isa = job.isa_names;
    job.layer = layer_read(options->specs[0], options->compile.set, options->compile.set_count, &job.diag);
    bool good = job.layer != NULL && choose_isas(&job) && choose_files(&job) && choose_symbol(&job) &&
                weights_read(&job.weights, job.layer, &options->weights, &job.diag) &&
                compile_kernel(&job.kernel, options->specs[0], job.layer->name, &compile, &job.diag) && pack(&job) &&
                write_files(&job);
    if (good)
        printf("packed for %s: %s.%s, %zu bytes as %s%s\n", job.isa_names, job.stem,
               job.format == FORMAT_BLOB ? "bin, .S and .h" : "c and .h", job.blocks * job.bytes, job.symbol,
               job.blocks > 1 ? ", a block for each" : "");
    tensors_free(&job.weights);
    kernel_unload(&job.kernel);
    layer_free(job.layer);
    free(job.block);
    free(job.stem);
    free(job.symbol);
    free(job.capitals);
    free(job.name);
    return command_end(&job.diag, false);
}
