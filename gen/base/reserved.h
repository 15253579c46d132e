/* SPDX-License-Identifier: MIT */
/* Words that a layer may not be called by: keywords of C and C++, and names of the C library. Included by
 * name.c only.
 *
 * Left out on purpose: the families that C11 7.31 keeps for later libraries (str…, mem…, is…, to… followed by
 * a small letter). C23 calls those "potentially reserved": they are reserved only once an implementation has
 * such a name, and no emitted name is one, for all of them are NAME_something. So `torch_mha` and `memory` are
 * fine, `tolower` and `memcpy` are not. POSIX names are left out for the same reason.
 */
#pragma once

/* C11, C17 and C23; C++98 to C++23 with the alternative tokens. */
static const char *const keywords[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "atomic_cancel", "atomic_commit", "atomic_noexcept", "auto",
    "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class",
    "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr",
    "constinit", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "fortran", "friend", "goto", "if", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq",
    "private", "protected", "public", "reflexpr", "register", "reinterpret_cast", "requires", "restrict", "return",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "synchronized",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof",
    "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor",
    "xor_eq",
};

/* Functions, types, objects and macros of the C library, and what C++ keeps whole. <math.h> and <complex.h>
 * appear once: the same names with f or l at their end are found by is_library_name(). */
static const char *const library_names[] = {
    /* assert, errno, iso646, setjmp, signal, stdarg, stddef, stdbool, stdnoreturn, stdalign, limits */
    "assert", "errno", "jmp_buf", "longjmp", "setjmp", "noreturn", "raise", "sig_atomic_t", "signal", "va_arg",
    "va_copy", "va_end", "va_list", "va_start", "max_align_t", "NULL", "nullptr_t", "offsetof", "ptrdiff_t", "size_t",
    "unreachable",
    /* ctype */
    "isalnum", "isalpha", "isblank", "iscntrl", "isdigit", "isgraph", "islower", "isprint", "ispunct", "isspace",
    "isupper", "isxdigit", "tolower", "toupper",
    /* stdint */
    "int8_t", "int16_t", "int32_t", "int64_t", "intmax_t", "intptr_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
    "uintmax_t", "uintptr_t", "imaxabs", "imaxdiv", "imaxdiv_t", "strtoimax", "strtoumax",
    /* locale, time */
    "lconv", "localeconv", "setlocale", "asctime", "clock", "clock_t", "ctime", "difftime", "gmtime", "localtime",
    "mktime", "strftime", "time", "time_t", "timespec", "timespec_get", "timespec_getres", "timegm", "tm",
    /* math, complex, fenv, tgmath */
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cabs", "cacos", "cacosh", "carg", "casin", "casinh",
    "catan", "catanh", "cbrt", "ccos", "ccosh", "ceil", "cexp", "cimag", "clog", "complex", "conj", "copysign", "cos",
    "cosh", "cpow", "cproj", "creal", "csin", "csinh", "csqrt", "ctan", "ctanh", "double_t", "erf", "erfc", "exp",
    "exp10", "exp2", "expm1", "fabs", "fdim", "feclearexcept", "fegetenv", "fegetround", "feholdexcept",
    "feraiseexcept", "fesetenv", "fesetround", "fetestexcept", "feupdateenv", "fenv_t", "fexcept_t", "float_t",
    "floor", "fma", "fmax", "fmin", "fmod", "fpclassify", "frexp", "hypot", "I", "ilogb", "imaginary", "INFINITY",
    "isfinite", "isgreater", "isgreaterequal", "isinf", "isless", "islessequal", "islessgreater", "isnan", "isnormal",
    "isunordered", "ldexp", "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb", "lrint", "lround",
    "modf", "nan", "NAN", "nearbyint", "nextafter", "nexttoward", "pow", "remainder", "remquo", "rint", "round",
    "scalbln", "scalbn", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
    /* stdio */
    "BUFSIZ", "clearerr", "EOF", "fclose", "feof", "ferror", "fflush", "fgetc", "fgetpos", "fgets", "FILE", "fopen",
    "fpos_t", "fprintf", "fputc", "fputs", "fread", "freopen", "fscanf", "fseek", "fsetpos", "ftell", "fwrite", "getc",
    "getchar", "gets", "perror", "printf", "putc", "putchar", "puts", "remove", "rename", "rewind", "scanf", "setbuf",
    "setvbuf", "snprintf", "sprintf", "sscanf", "stderr", "stdin", "stdout", "tmpfile", "tmpnam", "ungetc", "vfprintf",
    "vfscanf", "vprintf", "vscanf", "vsnprintf", "vsprintf", "vsscanf",
    /* stdlib */
    "abort", "abs", "aligned_alloc", "at_quick_exit", "atexit", "atof", "atoi", "atol", "atoll", "bsearch", "calloc",
    "div", "div_t", "exit", "free", "free_sized", "getenv", "labs", "ldiv", "ldiv_t", "llabs", "lldiv", "lldiv_t",
    "malloc", "mblen", "mbstowcs", "mbtowc", "qsort", "quick_exit", "rand", "realloc", "srand", "strtod", "strtof",
    "strtol", "strtold", "strtoll", "strtoul", "strtoull", "system", "wcstombs", "wctomb",
    /* string */
    "memccpy", "memchr", "memcmp", "memcpy", "memmove", "memset", "memset_explicit", "strcat", "strchr", "strcmp",
    "strcoll", "strcpy", "strcspn", "strdup", "strerror", "strlen", "strncat", "strncmp", "strncpy", "strndup",
    "strpbrk", "strrchr", "strspn", "strstr", "strtok", "strxfrm",
    /* threads and atomics: the prefixes, since every emitted name is NAME_something */
    "atomic", "call_once", "cnd", "memory_order", "mtx", "once_flag", "thrd", "tss",
    /* wchar, wctype, uchar */
    "btowc", "fgetwc", "fgetws", "fputwc", "fputws", "fwide", "fwprintf", "fwscanf", "getwc", "getwchar", "iswalnum",
    "iswalpha", "iswblank", "iswcntrl", "iswctype", "iswdigit", "iswgraph", "iswlower", "iswprint", "iswpunct",
    "iswspace", "iswupper", "iswxdigit", "mbrlen", "mbrtowc", "mbsinit", "mbsrtowcs", "mbstate_t", "putwc", "putwchar",
    "swprintf", "swscanf", "towctrans", "towlower", "towupper", "ungetwc", "vfwprintf", "vfwscanf", "vswprintf",
    "vswscanf", "vwprintf", "vwscanf", "wcrtomb", "wcscat", "wcschr", "wcscmp", "wcscoll", "wcscpy", "wcscspn",
    "wcsftime", "wcslen", "wcsncat", "wcsncmp", "wcsncpy", "wcspbrk", "wcsrchr", "wcsrtombs", "wcsspn", "wcsstr",
    "wcstod", "wcstof", "wcstok", "wcstol", "wcstold", "wcstoll", "wcstoul", "wcstoull", "wcsxfrm", "wctob", "wctrans",
    "wctrans_t", "wctype", "wctype_t", "wint_t", "wmemchr", "wmemcmp", "wmemcpy", "wmemmove", "wmemset", "wprintf",
    "wscanf",
    /* not of the library, but kept all the same */
    "defined", "main", "posix", "std",
};
