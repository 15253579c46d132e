#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# make install, and what is installed used as a product's build uses it: CMake (Ninja, Makefiles), Meson, Make, a plain
# compiler, for this machine and for 64-bit Arm; the man pages and completions say what the programs know.
#
#   tests/examples/test_build.sh          BUILD=build, with both programs in it
#
# Left out on purpose: whether kernels are right; main.c of examples/build only asks for a plain average.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
source=$root
log=$work/log excerpt=(tail -n 30)
unset MAKEFLAGS MAKELEVEL MFLAGS CC LDFLAGS DESTDIR PREFIX ATTNGEN CMAKE_GENERATOR
export CFLAGS="-O0 -DAVERAGE_ONLY_ISA=AVERAGE_ISA_SCALAR" LC_ALL=C.UTF-8

not() { ! "$@"; }

# has TEXT TOOL…: whether all of the tools are here; if not, TEXT is skipped
has() {
    local text=$1 tool
    shift
    for tool; do
        if ! command -v "$tool" >/dev/null; then
            skip "$text (no $tool here)"
            return 1
        fi
    done
}

# ---- install and uninstall ----

root="$work/a place" prefix=/opt/attn
make_it() { env -u CFLAGS make -s --no-print-directory BUILD="$build" DESTDIR="$root" PREFIX=$prefix "$@"; }
here=$root$prefix
picture() {
    (cd "$root" && find . \( -type f -printf '%p %m %s ' -exec md5sum {} \; \) -o -printf '%p %m\n' | LC_ALL=C sort)
}

check "make install" eval '(umask 077; make_it install)'
picture >"$work/first"
check "make install again" make_it install
picture >"$work/second"
check "installing twice is installing once" cmp "$work/first" "$work/second"
for file in bin/attngen bin/attnrun; do
    check "$file is a program that all may run" test "$(stat -c %a "$here/$file")" = 755
done
for file in share/man/man1/{attngen,attnrun}.1 share/man/man5/attngen-layer.5 share/doc/attngen/README.md \
    lib/cmake/attngen/attngen-config{,-version}.cmake share/pkgconfig/attngen.pc \
    share/bash-completion/completions/{attngen,attnrun} share/zsh/site-functions/_attngen \
    share/fish/vendor_completions.d/{attngen,attnrun}.fish \
    share/attngen/examples/bert_base.layer share/attngen/examples/build/main.c; do
    check "$file is there, for all" eval 'test -s "$here/$file" && test "$(stat -c %a "$here/$file")" = 644'
done
# every file of the examples that the project keeps, but the demo, which is of the tree
[ ! -e .git ] || check "every example is there, and what it needs" eval 'test -z "$(git ls-files examples docs |
    grep -vE "/(demo\.sh|\.gitignore)$" | while read -r file; do
    test -f "$here/share/attngen/$file" || test -f "$here/share/doc/attngen/$file" || echo "$file"; done)"'
check "what is packaged has no @word@ left" not grep -rE '@[a-z_]+@' "$here"/{lib,share/pkgconfig,share/man}
check "nothing knows where it was staged" not grep -rIF "$work" "$here"
check "nor a program where it was made, so that two builds are the same" not grep -rqF "$source" "$here/bin"
version=$("$here/bin/attngen" --version)
check "the CMake package has the version" grep -qF "\"${version#attngen }\"" \
    "$here/lib/cmake/attngen/attngen-config-version.cmake"

# ---- man pages and completions know what the programs know ----

# the options of the help: a sorted list
options() { grep -oE '^  (-[a-zA-Z], )?--[a-z0-9-]+(, --[a-z-]+)*' | grep -oE -- '--[a-z0-9-]+' | LC_ALL=C sort -u; }
known() { if [ $# -eq 1 ]; then "$here/bin/$1" --help; else "$here/bin/$1" help "$2"; fi | options; }

# the same from a page's source: of attngen, or of one command
in_page() {
    awk -v command="${2-}" '/^\.S[hs]/ { inside = command == "" ? $1 == ".Sh" : $3 == command }
        inside && /^\.It .*Fl \\-/ { sub(/.*Fl \\-/, ""); sub(/ .*/, ""); gsub(/\\-/, "-"); print "--" $0 }' \
        "$here/share/man/man1/$1.1" | LC_ALL=C sort -u
}
# what bash offers for the last of these words
bash_words() {
    bash --norc -c 'source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _attngen; echo "${COMPREPLY[*]}"' \
        - "$here/share/bash-completion/completions/$1" "$@"
}
in_bash() {
    bash_words "$@" -- | tr ' ' '\n' | LC_ALL=C sort -u
}
in_fish() {
    HOME=$work fish --no-config -c "source '$here/share/fish/vendor_completions.d/$1.fish'; complete -C '$* --'" |
        grep -oE '^--[a-z0-9-]+' | LC_ALL=C sort -u
}
in_zsh() { # what the script hands to _arguments
    zsh -f -c '_arguments() { print -l -- "$@" }
        service=$1 words=("$@" --) CURRENT=$(( $# + 1 )); source "$0"' "$here/share/zsh/site-functions/_attngen" "$@" |
        grep -oE '^\*?--[a-z0-9-]+' | tr -d '*' | LC_ALL=C sort -u
}

check "attngen knows the options of its help" eval \
    'for option in $(known attngen); do "$here/bin/attngen" $option 2>&1 | grep "unknown option"; done | not grep .'
check "and no other" eval '"$here/bin/attngen" --no-such 2>&1 | grep -q "unknown option"'
commands=$("$here/bin/attnrun" help | sed -n 's/^  attnrun \([a-z]*\) .*/\1/p' | grep -vx help)
check "attnrun has commands" test -n "$commands"
shells=(page bash)
has "completion for fish" fish && shells+=(fish)
has "completion for zsh" zsh && shells+=(zsh)
for shell in "${shells[@]}"; do
    check "attngen's options: $shell" diff <(known attngen) <(in_"$shell" attngen)
    check "options of attngen import: $shell" diff <(known attngen import) <(in_"$shell" attngen import)
    for command in $commands; do
        check "options of attnrun $command: $shell" diff <(known attnrun "$command") <(in_"$shell" attnrun "$command")
    done
done
check "bash completes a command" test "$(bash_words attnrun ben)" = bench
check "bash completes attngen's command" test "$(bash_words attngen impo)" = import
check "bash completes the last of a list" test "$(bash_words attngen --isa avx2,sca)" = avx2,scalar
check "bash completes a choice" test "$(bash_words attnrun check --init xa)" = xavier
check "bash completes a choice of attngen" test "$(bash_words attngen --size s)" = small

"$here/bin/attngen" --keys | sed 's/ .*//' | grep -v '^plan' | LC_ALL=C sort >"$work/keys"
check "attngen says its keys" grep -qx d_model "$work/keys"
check "attngen-layer(5) has every key" diff "$work/keys" <(awk '/^\.Ss Keys/ { on = 1 } /^\.El/ { on = 0 }
    on && sub(/^\.It /, "") { gsub(/\\f[BR]|,/, ""); gsub(/ /, "\n"); print }' "$here/share/man/man5/attngen-layer.5" |
    grep -v '^plan' | LC_ALL=C sort)

for page in man1/attngen.1 man1/attnrun.1 man5/attngen-layer.5; do
    if has "mandoc's opinion of $page" mandoc; then
        check "mandoc has nothing against $page" eval \
            '! mandoc -T lint "$here/share/man/$page" | grep -E " (WARNING|ERROR|UNSUPP|FATAL): "'
        check "$page renders" eval 'mandoc -T utf8 "$here/share/man/$page" | grep -q attngen'
    fi
    has "groff's opinion of $page" groff &&
        check "groff has nothing against $page" eval \
            '! groff -k -ww -mdoc -Tutf8 "$here/share/man/$page" 2>&1 >/dev/null | grep .'
done

# ---- the examples ----

export PATH="$here/bin:$PATH"
package=$here

# fresh NAME: a copy of the installed examples, with a blank in its path; goes there
fresh() {
    mkdir -p "$work/$1" && cp -R "$here/share/attngen/examples/build" "$work/$1/my project" && cd "$work/$1/my project"
}

# What is to be true of each build system. `rebuild` builds and prints each command, `main` is the program; attngen is
# seen at work by its option --deps.
rebuild() { "${how[@]}"; }
generated() { rebuild >"$work/commands" 2>&1; test "$(grep -c -e ' --deps ' "$work/commands")" -eq "$1" ||
    { cat "$work/commands"; false; }; }
answers() { "${run[@]}" "$main" | grep "^average on .*: ok"; }

ladder() {
    local text=$1
    check "$text: builds" rebuild
    check "$text: runs" answers
    check "$text: nothing to do" generated 0
    touch average.layer
    check "$text: the spec was touched" generated 1
    check "$text: and now nothing to do" generated 0
    sed -i 's/^d_model = .*/d_model = 32/' average.layer
    check "$text: the spec has changed" generated 1
    check "$text: runs the changed layer" answers
    sed -i 's/^h = .*/h = 5/' average.layer
    check "$text: a wrong spec stops the build" eval '! rebuild >"$work/said" 2>&1'
    check "$text: and says where and why" grep -q 'average.layer:[0-9]*: error: .*5' "$work/said"
    sed -i 's/^h = .*/h = 2/' average.layer
    check "$text: the spec is good again" generated 1
    check "$text: and runs" answers
}
run=()

if has "Make" make && fresh make; then
    how=(make -C make) main=make/out/main
    ladder Make
    rm -rf make/out
    check "Make, 8 jobs: both files by one command" eval \
        'make -j8 -C make >"$work/said" 2>&1 && test "$(grep -c -e --deps "$work/said")" -eq 1'
fi

if fresh plain; then
    check "plain cc: builds" sh plain/build.sh
    main=plain/out/main
    check "plain cc: runs" answers
    sed -i 's/^h = .*/h = 5/' average.layer
    check "plain cc: a wrong spec stops the build" not sh plain/build.sh
fi

for generator in Ninja "Unix Makefiles"; do
    tool=make
    [ "$generator" = Ninja ] && tool=ninja
    has "CMake, $generator" cmake $tool || continue
    for example in cmake cmake-command; do
        [ "$example $tool" = "cmake-command ninja" ] && continue # nothing there that the others do not show
        fresh "$example-$tool" || exit 3
        check "$example, $generator: configures" cmake -S $example -B out -G "$generator" -DCMAKE_PREFIX_PATH="$package"
        how=(cmake --build out --verbose) main=out/main
        ladder "$example, $generator"
        touch "$here/bin/attngen"
        check "$example, $generator: a new attngen" generated 1
        if [ $example = cmake ]; then
            touch average.layer
            check "$example, $generator: a spec that was touched is not configured anew" eval 'generated 1 &&
                not grep -q -i -e "re-running cmake" -e "configuring done" "$work/commands"'
            echo 'name = other' >>average.layer
            check "$example, $generator: another name asks for another build" eval \
                'not rebuild >"$work/said" 2>&1 && tr -s " \n" " " <"$work/said" | grep -q "another name; build again"'
            check "$example, $generator: which has its files" eval 'not rebuild >"$work/said" 2>&1; test -s "$(find out -name other.c)"'
            sed -i '/^name = other/d' average.layer
            check "$example, $generator: and the old name again" eval 'not rebuild >"$work/said" 2>&1; rebuild && answers'
        fi
        check "$example, $generator: the tests of the project" eval '(cd out && ctest)'
    done
done

if has "Meson" meson ninja && fresh meson; then
    check "Meson: configures" meson setup out meson
    how=(meson compile -C out --verbose) main=out/main
    ladder Meson
    check "Meson: the tests of the project" meson test -C out
fi

# Ninja's own deps = gcc, outputs and templates relative to the build folder: what changes is known by the depfile alone
if has "Ninja" ninja && mkdir "$work/deps" && cd "$work/deps"; then
    cp -R "$source/templates" "my templates"
    cp "$source/examples/build/average.layer" .
    cat >build.ninja <<'NINJA'
rule attngen
  command = attngen -o "ge n" --deps "ge n/average.d" --templates "my templates" $in
  depfile = ge n/average.d
  deps = gcc
  restat = 1
build ge$ n/average.c | ge$ n/average.h: attngen average.layer
NINJA
    how=(ninja -v)
    check "Ninja: builds" generated 1
    check "Ninja: nothing to do" generated 0
    touch "my templates/interface/kernel.c.in"
    check "Ninja: a template was touched" generated 1
    check "Ninja: and now nothing to do" generated 0
fi

# ---- the CMake package ----

# project LINES…: configures a project of these lines after find_package
project() { # LANGUAGES LINE…
    rm -rf p
    mkdir p
    { echo "cmake_minimum_required(VERSION 3.20)"; echo "project(p LANGUAGES $1)"; } >p/CMakeLists.txt
    shift
    printf '%s\n' "$@" >>p/CMakeLists.txt
    cmake -S p -B p/out -DCMAKE_PREFIX_PATH="$package" 2>&1 | tr -s ' \n' ' '
    return "${PIPESTATUS[0]}"
}
refuses() { # TEXT LANGUAGES LINE…: is wrong, and says TEXT
    local said
    said=$(project "${@:2}") && { echo "it is taken: $said"; return 1; }
    grep -qF -e "$1" <<<"$said" || { echo "$said"; return 1; }
}
number=${version#attngen }
major=${number%%.*} minor=${number#*.}
minor=${minor%%.*}
if has "the CMake package" cmake make && mkdir "$work/package" && cd "$work/package"; then
    cp "$source"/examples/build/{average.layer,main.c} .
    for good in "" "$major" "$major.$minor" "$number EXACT" "$major.$minor...<99" "$number...$number"; do
        check "find_package(attngen $good)" project NONE "find_package(attngen $good REQUIRED)"
    done
    for bad in 99 "$major.$((minor + 1))" "0...<$number" 99...100; do
        check "find_package(attngen $bad) finds none" refuses "$number" NONE "find_package(attngen $bad REQUIRED)"
    done
    add='find_package(attngen REQUIRED)'
    check "no spec" refuses "SPEC is missing" C "$add" 'attngen_add_layer(t)'
    check "a word too many" refuses 'what is "word"' C "$add" 'attngen_add_layer(t word SPEC ../average.layer)'
    check "split" refuses "leave it out" C "$add" 'attngen_add_layer(t SPEC ../average.layer OPTIONS --split)'
    check "no C" refuses "add C" NONE "$add" 'attngen_add_layer(t SPEC ../average.layer)'
    for name in 'a\\;b' 'a|b' 'a\nb' 'ab:c' '\$<1:a>' 'a]==]b' 'a]==] line)\nfile(TOUCH touched)\nset(x [==[b'; do
        check "a spec named $name" refuses "rename what has it" C "$add" "attngen_add_layer(t SPEC \"../$name.layer\")"
    done
    check "nothing of a name was run" eval 'test -z "$(find . -name touched)"'
    check "a target of another folder" refuses "call the function there" C "$add" 'add_library(t ../main.c)' \
        'file(WRITE "${CMAKE_CURRENT_SOURCE_DIR}/s/CMakeLists.txt" "attngen_add_layer(t SPEC ../../average.layer)")' \
        'add_subdirectory(s)'
    check "a program that does not run" refuses "set ATTNGEN_EXECUTABLE" NONE \
        'set(ATTNGEN_EXECUTABLE /bin/false)' "$add"
    check "a program that is another" refuses 'not attngen' NONE 'set(ATTNGEN_EXECUTABLE /bin/echo)' "$add"
    # a package whose own program is for another machine: the one in the PATH is taken
    cp -R "$here" "$work/foreign"
    printf 'not for this machine' >"$work/foreign/bin/attngen"
    package=$work/foreign
    check "the host's program is taken" eval 'project NONE "$add" \
        "get_target_property(program attngen::attngen IMPORTED_LOCATION)" "message(\"takes \${program}.\")" |
        grep -F "takes $here/bin/attngen."'
    package=$here
    # into a target that is there, with everything: the name comes from SET
    check "into an executable, with every argument" project C "$add" 'add_executable(main ../main.c)' \
        'attngen_add_layer(main SPEC ../../package/average.layer ISA scalar SET d_model=32 OPTIONS --no-such)'
    check "OPTIONS reach attngen" eval '! cmake --build p/out >"$work/said" 2>&1'
    check "and are refused there" grep -q "option '--no-such'" "$work/said"
    cp -R "$source/templates" "my templates"
    check "two layers in an executable" project C "$add" 'add_executable(main ../main.c)' \
        'get_filename_component(templates "../my templates" ABSOLUTE)' \
        'attngen_add_layer(main SPEC ../average.layer ISA scalar SET d_model=32 OPTIONS --templates "${templates}")' \
        'attngen_add_layer(main SPEC ../average.layer SET name=other h=1 ISA scalar)' \
        'set_target_properties(main PROPERTIES UNITY_BUILD ON)'
    check "they build" cmake --build p/out
    check "with what was asked for" grep -qF 'attngen --isa scalar --set d_model=32 average.layer' \
        p/out/attngen/main/average.c
    check "both" test -s p/out/attngen/main/other.h
    main=p/out/main
    check "they run" answers
    how=(cmake --build p/out --verbose)
    check "nothing to do" generated 0
    touch "my templates/interface/kernel.h.in"
    check "a template, which only the depfile names, was touched" generated 1
    check "and now nothing to do" generated 0
fi

# ---- models ----

# What docs/build.md has indented after the line that begins with $1, and then a blank line
page() { awk -v from="$1" 'on && /^    / { print substr($0, 5); seen = 1; next } on && seen { exit }
    index($0, from) == 1 { on = 1 }' "$source/docs/build.md"; }
embeds() { "$main" "my model/model.safetensors" | grep -x "a model: ok"; }
# a model's folder, a program, and where it is built
model_project() {
    mkdir "$work/$1" && cd "$work/$1" && cp -R "$source/tests/models/imports/bert" "${2:-my model}" || return 1
    cat >main.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include "minilm_model.h"

static _Alignas(64) unsigned char file[MINILM_MODEL_BYTES(1)], work[MINILM_MODEL_WORK_BYTES],
        arena[MINILM_MODEL_ARENA_BYTES(1)], bytes[1 << 20];

int main(int argc, char **argv)
{
    FILE *from = argc > 1 ? fopen(argv[1], "rb") : NULL;
    const int32_t ids[3] = {1, 2, 3};
    float mean[MINILM_D_MODEL];
    minilm_model model;
    minilm_model_shard shard = {bytes, from == NULL ? 0 : fread(bytes, 1, sizeof bytes, from)};
    int error = minilm_model_pack(file, &shard, 1, NULL, 1, work);
    error = error ? error : minilm_model_open(&model, file, sizeof file);
    minilm_model_args args = {.ids = ids, .mean = mean, .batch = 1, .n = 3};
    error = error ? error : minilm_model_run(&model, &args, arena);
    printf("a model: %s\n", error ? minilm_model_strerror(error) : "ok");
    return error != 0;
}
C
}
export CFLAGS="-O0 -DMINILM_LAYER_ONLY_ISA=MINILM_LAYER_ISA_SCALAR -DMINILM_POOLER_ONLY_ISA=MINILM_POOLER_ISA_SCALAR"
for generator in Ninja "Unix Makefiles"; do
    tool=make
    [ "$generator" = Ninja ] && tool=ninja
    has "a model by CMake, $generator" cmake $tool || continue
    model_project "model-$tool" || exit 3
    cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(embed LANGUAGES C)
find_package(attngen REQUIRED)
attngen_add_model(minilm MODEL "my model" NAME minilm IMPORT --seq-len 8)
add_executable(main main.c)
target_link_libraries(main PRIVATE minilm)
CMAKE
    how=(cmake --build out --verbose) main=out/main
    check "a model, $generator: configures" cmake -S . -B out -G "$generator" -DCMAKE_PREFIX_PATH="$package"
    check "a model, $generator: builds" generated 1
    check "a model, $generator: runs" embeds
    check "a model, $generator: by its option" grep -q 'define MINILM_SEQ_LEN 8$' <(sed 's, /\*.*,,' out/attngen/minilm/minilm_model.h)
    check "a model, $generator: nothing to do" generated 0
    touch -d "1 minute" "my model/config.json"
    check "a model, $generator: a key changes" eval 'sed -i "s/\"layer_norm_eps\": 1e-12/\"layer_norm_eps\": 1e-6/" "my model/config.json" &&
        generated 1 && grep -q "norm_eps *= 1e-06" out/attngen/minilm/specs/*/minilm_layer.layer'
    check "a model, $generator: and it runs" embeds
    check "a model, $generator: nothing to do then" generated 0
    check "a model, $generator: specs of the project" attngen import --specs "my model" -o specs --name minilm
    sed -i 's/^attngen_add_model.*/attngen_add_model(minilm LAYERS specs\/minilm.layers)/' CMakeLists.txt
    check "a model, $generator: are built" generated 1
    check "a model, $generator: and run" embeds
    sed -i 's/^norm_eps.*/norm_eps = 0.125/' specs/minilm_layer.layer
    check "a model, $generator: a spec changes" generated 1
    check "a model, $generator: and then nothing" generated 0
done
if has "refusals of attngen_add_model" cmake make && cd "$work/package"; then
    add='find_package(attngen REQUIRED)'
    check "neither model nor list" refuses "give MODEL" C "$add" 'attngen_add_model(t)'
    check "both" refuses "give MODEL" C "$add" 'attngen_add_model(t MODEL a LAYERS b)'
    check "a name for a list" refuses "the list of LAYERS has a name" C "$add" 'attngen_add_model(t LAYERS b NAME c)'
    check "no list" refuses "there is no" C "$add" 'attngen_add_model(t LAYERS b)'
    check "a model that cannot be imported" refuses "cannot be read" C "$add" 'attngen_add_model(t MODEL none)'
    check "a folder that would be misread" refuses "rename what has it" C "$add" 'attngen_add_model(t MODEL "a|b")'
    check "a word without a meaning" refuses 'what is "x"' C "$add" 'attngen_add_model(t x MODEL a)'
fi
if has "a model by Make" make && model_project model-make-page all-MiniLM-L6-v2; then
    page "A model's files depend" >Makefile
    how=(make) main=out/main
    check "a model, Make: builds" generated 1
    check "a model, Make: runs" eval '"$main" all-MiniLM-L6-v2/model.safetensors | grep -x "a model: ok"'
    check "a model, Make: nothing to do" generated 0
    touch -d "1 minute" all-MiniLM-L6-v2/model.safetensors
    check "a model, Make: its weights changed" eval 'generated 1; touch -d "1 minute ago" all-MiniLM-L6-v2/*'
fi
if has "a model by Meson" meson ninja && model_project model-meson; then
    page "Of a model Meson" >meson.build
    check "a model, Meson: specs" attngen import --specs "my model" -o specs --name minilm
    check "a model, Meson: configures" meson setup out
    how=(meson compile -C out --verbose) main=out/main
    check "a model, Meson: builds" generated 1
    check "a model, Meson: runs" embeds
    check "a model, Meson: nothing to do" generated 0
    touch specs/minilm_layer.layer
    check "a model, Meson: a spec was touched" generated 1
fi
export CFLAGS="-O0 -DAVERAGE_ONLY_ISA=AVERAGE_ISA_SCALAR"

# ---- pkg-config ----

if has "pkg-config" pkg-config; then
    export PKG_CONFIG_PATH="$here/share/pkgconfig"
    check "pkg-config takes the file" pkg-config --validate attngen
    check "pkg-config knows the version" test "$(pkg-config --modversion attngen)" = "$number"
    eval "program=$(pkg-config --variable=attngen attngen)" # it escapes the blank
    check "pkg-config knows the program" test "$("$program" --version)" = "$version"
fi

# ---- for another machine ----

if has "64-bit Arm" aarch64-linux-gnu-gcc qemu-aarch64; then
    run=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
    fresh arm || exit 3
    how=(make -C make CC=aarch64-linux-gnu-gcc) main=make/out/main
    check "Make for Arm" rebuild
    check "it is for Arm" eval 'od -An -tu1 -j18 -N1 "$main" | grep -qw 183' # e_machine
    check "it runs" answers
    if has "CMake for Arm" cmake ninja; then
        check "CMake for Arm: configures" cmake -S cmake -B out -G Ninja -DCMAKE_PREFIX_PATH="$package" \
            --toolchain "$PWD/aarch64-linux-gnu.cmake"
        check "CMake for Arm: builds" cmake --build out
        check "CMake for Arm: the tests of the project" eval '(cd out && ctest)'
    fi
    if has "Meson for Arm" meson ninja; then
        check "Meson for Arm: configures" meson setup meson-out meson --cross-file aarch64-linux-gnu.ini
        check "Meson for Arm: the tests of the project" meson test -C meson-out
    fi
fi

# ---- and gone again ----

cd "$source" || exit 3
touch "$here/share/attngen/mine"
check "make uninstall" make_it uninstall
check "leaves nothing but what it does not know" test "$(cd "$here" && find . -type f)" = ./share/attngen/mine
rm "$here/share/attngen/mine"
check "make uninstall again" make_it uninstall
check "its folders are gone" test -z "$(find "$here" -mindepth 2)"

tally
