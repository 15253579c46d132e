/* SPDX-License-Identifier: MIT */
/* Files that are given for a spec or for safetensors by mistake are named for what they are; those that are right are not.
 *
 * Left out on purpose: who asks; test_bad.sh and test_pack.sh give such files to both programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/filekind.h"

#define BYTES(text) text, sizeof text - 1

static const struct {
    const char *bytes;
    size_t length;
    const char *what, *spec, *tensors; /* parts of the messages; NULL: it is the right kind, or a stranger */
} files[] = {
    {BYTES("{\n  \"architectures\": [\"BertModel\"],\n  \"hidden_size\": 384\n}\n"), "a model's configuration",
     "its hidden_size is d_model", "model.safetensors beside it"},
    {BYTES("\xef\xbb\xbf{\"model_type\": \"t5\", \"d_model\": 512}"), "a model's configuration", "d_model", "beside it"},
    {BYTES("{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"a\": \"model-00001.safetensors\"}}"), "the list of a model",
     "key = value", "that has the layer"},
    {BYTES("{}"), "JSON", "key = value", "safetensors are needed"},
    {BYTES("[{\"d_model\": 5}]"), "JSON", "key = value", "safetensors are needed"},
    {BYTES("PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\30\0\22\0pytorch_model/data.pklFB"), "a PyTorch checkpoint",
     "key = value", "torch.load(FILE)"},
    {BYTES("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."), "a PyTorch checkpoint", "key = value", "save_file"},
    {BYTES("PK\3\4\55\0\0\0\0\0\0\0!\0\0\0\0\0\377\377\377\377\377\377\377\377\7\0\24\0w_q.npy\1\0"), "NumPy arrays", "key = value",
     "numpy.load(FILE)"},
    {BYTES("PK\3\4\24\0\0\0\0\0\0\0!\0README"), "a zip archive", "key = value", "unpack it"},
    {BYTES("\x93NUMPY\1\0v\0{'descr': '<f4'"), "a NumPy array", "key = value", "numpy.load(FILE)"},
    {BYTES("\10\10\22\7pytorch\32\0052.1.0:\307\1"), "an ONNX model", "key = value", "onnx.load(FILE)"},
    {BYTES("\10\7:\307\1\n\5\n\1x\22"), "an ONNX model", "key = value", "onnx.load(FILE)"},
    {BYTES("GGUF\3\0\0\0\43\1\0\0\0\0\0\0"), "a GGUF model", "key = value", "that it was made from"},
    {BYTES("\x89HDF\r\n\x1a\n\0\0\0\0"), "HDF5", "key = value", "h5py"},
    {BYTES("\34\0\0\0TFL3\24\0 \0"), "a TensorFlow Lite model", "key = value", "as safetensors"},
    {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90868376\n"), "a git-lfs pointer", "git lfs pull",
     "git lfs pull"},
    {BYTES("\n<!DOCTYPE html>\n<html><head><title>404</title>"), "a web page", "the file itself", "/resolve/"},
    {BYTES("<HTML>"), "a web page", "the file itself", "/resolve/"},
    {BYTES("<?xml version=\"1.0\"?><Error><Code>AccessDenied"), "XML", "key = value", "a server's error"},
    {BYTES("\x1f\x8b\10\0"), "compressed", "unpack it", "unpack it"},
    {BYTES("atte\2\0\0\0"), "weights that attnrun pack packed", "key = value", "made from"},
    {BYTES("\xff\xfe" "d\0_\0"), "text in UTF-16", "UTF-8", "safetensors are needed"},
    {BYTES("\72\0\0\0\0\0\0\0{\"w_q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} \0\0\0\0"), "safetensors",
     "with --weights or --in", NULL},
    {BYTES("\10\2\22\0\0\0\0\0{\"w_q\":"), "safetensors", "--weights", NULL}, /* its length looks like ONNX */
    {BYTES("# a layer\nd_model = 64\nh = 4\nseq_len = 32\n"), "a spec", NULL, "in front of the options"},
    {BYTES("h = 4\nd_model=64\n"), "a spec", NULL, "in front of the options"},
    {BYTES("\xef\xbb\xbf\n # sizes\n\td_model\t= 64\nh = 4 # heads\nmask = cau"), "a spec", NULL, "in front of the options"},
    {BYTES("attention = cross\nd_model = 64\nh = 4\n"), "a spec", NULL, "in front of the options"},
    {BYTES("format = 1\nspec = d_model=4\nfingerprint = 5\n"), "a plan", "with --plan", "safetensors are needed"},
    {BYTES("name = x\n"), "text", NULL, "safetensors are needed"},
    {BYTES("# attngen\n\nA spec has lines as\n\n    d_model = 768\n"), "text", NULL, "safetensors are needed"},
    {BYTES("const int d_model = 768;\n"), "text", NULL, "safetensors are needed"},
    {BYTES("\10"), NULL, NULL, NULL},
    {BYTES("\0\0\0\0\0\0\0\0\0\0\0\0"), NULL, NULL, NULL},
    {BYTES("\x7f" "ELF"), NULL, NULL, NULL},
    {BYTES(""), NULL, NULL, NULL},
};

static void check(const char *bytes, size_t length, enum file_use use, const char *what, const char *right)
{
    struct diag diag = {0};
    const bool other = file_is_other("a file", bytes, length, use, &diag);
    if (other != (right != NULL) || diag.errors != (size_t)other)
        fail_msg("\"%.20s\" for use %d: %s", bytes, (int)use, other ? diag.messages[0] : "not told");
    if (other && (strstr(diag.messages[0], what) == NULL || strstr(diag.messages[0], right) == NULL))
        fail_msg("\"%.20s\" for use %d: %s", bytes, (int)use, diag.messages[0]);
    assert_false(diag.environment);
    diag_free(&diag);
}

static void test_kinds(void **state)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        check(files[i].bytes, files[i].length, FILE_SPEC, files[i].what, files[i].spec);
        check(files[i].bytes, files[i].length, FILE_TENSORS, files[i].what, files[i].tensors);
    }
}

/* What is read as NAME.layers, as a plan and as JSON: a file of another kind is named, plain text is left to its reader. */
static void test_owns(void **state)
{
    static const struct {
        const char *bytes, *is[3]; /* for each; NULL: its own, or text */
    } others[] = {
        {"format = 1\nspec = d_model=4\nfingerprint = 5\n", {"a plan of attnrun tune", NULL, "a plan of attnrun tune"}},
        {"format = 2\n\n[encoder layer]\n[weights]\n", {NULL, "a model's NAME.layers", "a model's NAME.layers"}},
        {"d_model = 4\n", {"a spec", "a spec", "a spec"}},
        {"{\"sweep\":\"0\"}\n", {"JSON", "JSON", NULL}},
        {"{\"model_type\": \"t5\"}", {"a model's configuration (JSON)", "a model's configuration (JSON)", NULL}},
        {"<html>", {"a web page", "a web page", "a web page"}},
        {"GGUF\3", {"a GGUF model", "a GGUF model", "a GGUF model"}},
        {"no line of a known kind\n", {NULL, NULL, NULL}},
        {"\x7f" "ELF", {NULL, NULL, NULL}},
        {"", {NULL, NULL, NULL}},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int own = FILE_ANY; own <= FILE_JSON; own++) {
            const char *is = file_kind(others[i].bytes, strlen(others[i].bytes), own);
            const char *wanted = own == FILE_ANY ? NULL : others[i].is[own - FILE_LAYERS];
            if ((is == NULL) != (wanted == NULL) || (is != NULL && strcmp(is, wanted) != 0))
                fail_msg("\"%.20s\" for %d: %s", others[i].bytes, own, is != NULL ? is : "not told");
        }
}

/* Every beginning of every file, in memory that ends with it (a sanitizer looks on). */
static void test_cut_off(void **state)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t length = 0; length <= files[i].length; length++) {
            struct diag diag = {0};
            unsigned char *cut = test_malloc(length + 1);
            memcpy(cut + 1, files[i].bytes, length);
            file_is_other("a file", cut + 1, length, FILE_SPEC, &diag);
            file_is_other("a file", cut + 1, length, FILE_TENSORS, &diag);
            test_free(cut);
            diag_free(&diag);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_owns),
                                        cmocka_unit_test(test_cut_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
