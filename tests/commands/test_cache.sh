#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cache of compiled kernels: what is found there is run, so only what is ours may be; many programs share it.
#
#   tests/commands/test_cache.sh      ATTNRUN=build/attnrun  CC=gcc
#
# The compiler of these checks plants code where PLANT is set: a library that makes the file `ran` when it is loaded.
# Otherwise it hands out what it compiled before, so that most checks cost no compilation.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
unset ATTNRUN_LIMIT PLANT
export REAL_CC=${CC:-cc} CC=$work/cc CFLAGS=-O0 TMPDIR=$work/tmp WORK=$work
shown=(out err)
mkdir "$TMPDIR"
cd "$work" || exit 3
printf 'd_model = 8\nh = 1\nseq_len = 4\n' >tiny.layer
echo '#include <stdio.h>
__attribute__((constructor)) static void run(void) { fclose(fopen(RAN, "w")); }' >plant.c
cat >cc <<'END'
#!/usr/bin/env bash
[ "$1" = --version ] && exec $REAL_CC --version
for ((i = 1; i < $#; i++)); do [ "${!i}" = -o ] && j=$((i + 1)) to=${!j}; done
if [ -n "${PLANT-}" ]; then
    exec $REAL_CC "$@" -DRAN="\"$WORK/ran\"" "$WORK/plant.c"
fi
[ -e "$WORK/ready.so" ] || $REAL_CC "$@" || exit
[ -e "$WORK/ready.so" ] || cp "$to" "$WORK/ready.so"
head -c 5000 "$WORK/ready.so" >"$to" # in two steps, as a compiler's writing takes time
[ -n "${SLOW-}" ] && sleep 0.3
tail -c +5001 "$WORK/ready.so" >>"$to"
END
chmod +x cc

# go STATUS ARGUMENT…: a check must end with that status, and leave nothing behind
go() {
    ends "$1" "$attnrun" check tiny.layer --isa scalar "${@:2}"
    check "nothing stays behind" test -z "$(ls -A "$TMPDIR")"
}
silent() { check "nothing is said" test ! -s err; }
runs() { check "$1: what is kept is run" test -e ran; rm -f ran; }
spares() { check "$1: planted code is not run" test ! -e ran; rm -f ran; }

# ---- a folder of our own ----

PLANT=1 go 0 --cache own
runs "compiled"
go 0 --cache own; silent
runs "own"
entry=$(cd own && echo *.so)
check "the folder is for us alone" test "$(stat -c %a own)" = 700
check "the file is for us alone" test "$(stat -c %a "own/$entry")" = 600
check "the file alone is kept" test "$(ls -A own)" = "$entry"

# plant FOLDER: as someone else would
plant() { rm -rf "$1"; mkdir -p "$1"; cp -p "own/$entry" "$1/$entry"; }

# ---- files that are not ours ----

plant file; chmod 700 file; chmod g+w "file/$entry"
go 0 --cache file; spares "a file that the group may write"
check "it is made again" test "$(stat -c %a "file/$entry")" = 600
go 0 --cache file; spares "the one that was made again"
if [ "$(id -u)" -eq 0 ]; then
    plant file; chmod 700 file; chown 12345 "file/$entry"
    go 0 --cache file; spares "a file of another user"
    plant folder; chmod 700 folder; chown 12345 folder
    go 3 --cache folder; spares "a folder of another user"
    says "it belongs to user 12345"
else
    skip "files of another user: this is not root" 4
fi
plant link; chmod 700 link; mv "link/$entry" planted; ln -s ../planted "link/$entry"
go 0 --cache link; spares "a link to a file"
check "the link is replaced" test -f "link/$entry" -a ! -L "link/$entry"
plant pipe; chmod 700 pipe; rm "pipe/$entry"; mkfifo "pipe/$entry"
go 0 --cache pipe; spares "a pipe is not waited for"
check "the pipe is replaced" test -f "pipe/$entry"
plant other; chmod 700 other; rm "other/$entry"
cp -p "own/$entry" kept; CFLAGS=-O1 go 0 --cache other
check "under another key" test "$(ls other)" != "$entry"
cp -p kept "other/$(ls other)"; CFLAGS=-O1 go 0 --cache other; spares "what was kept under another key"

# ---- folders that are not ours ----

plant open; chmod 777 open
go 3 --cache open; spares "a folder for everybody"
says "others may write to it (mode 777)"; says "chmod 700"
chmod 770 open; go 3 --cache open; spares "a folder for a group"
ln -s own way
go 3 --cache way; spares "a link to a folder"; says "it is a symbolic link"
go 3 --cache way/; spares "a link to a folder, with a slash"
go 3 --cache tiny.layer; says "it cannot be opened: Not a directory"
plant xdg/attngen; chmod 777 xdg/attngen
XDG_CACHE_HOME=$work/xdg go 0; spares "the default folder, for everybody"
says "xdg/attngen: warning: "; says "others may write to it (mode 777)"
check "it is left as it was" cmp "own/$entry" "xdg/attngen/$entry"
mv xdg/attngen planted-folder; ln -s ../planted-folder xdg/attngen; chmod 700 planted-folder
XDG_CACHE_HOME=$work/xdg go 0; spares "the default folder, a link"
plant home/.cache/attngen; chmod 700 home/.cache/attngen; unset XDG_CACHE_HOME
HOME=$work/home go 0; silent; runs "the default folder, ours"

# ---- no folder at all ----

ends 0 env -u HOME "$attnrun" check tiny.layer tiny.layer --isa scalar
says "neither XDG_CACHE_HOME nor HOME"
check "it is said once" test "$(wc -l <err)" -eq 1
check "nothing is kept" test -z "$(ls -A "$TMPDIR")"
ends 0 env -u HOME "$attnrun" sweep tiny.layer --vary n=2,3 --isa scalar --seconds 0 --rounds 1 --json sweep.jsonl
check "a sweep says it once" test "$(grep -c warning err)" -eq 1
check "the code of what is not kept is counted" test "$(grep -c '"code_bytes":[1-9]' sweep.jsonl)" -eq 2

# ---- many programs, one folder ----

# all: at once and, where the system lets us, with equal process numbers
all() {
    local i pids=() good=0
    rm -rf shared
    for ((i = 0; i < 12; i++)); do
        SLOW=1 "$@" "$attnrun" check tiny.layer --isa scalar --cache shared >"out.$i" 2>&1 </dev/null &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" && good=$((good + 1)); done
    cat out.* >out
    check "$*: 12 of 12 are good" test "$good" -eq 12
    check "$*: one file is kept" test "$(ls -A shared)" = "$entry"
    rm -f out.*
}
all env
if unshare -r -p -f true 2>/dev/null; then
    all unshare -r -p -f
else
    skip "equal process numbers: no namespaces here" 2
fi

# what a process that was killed left behind
key=${entry%.so}
touch -d '2 hours ago' "shared/$key.123" "shared/$key.0123456789abcdef" shared/notes "shared/$key"
touch "shared/$key.124"
rm "shared/$entry"
go 0 --cache shared
check "what is old goes, what is new or not ours to remove stays" \
    test "$(cd shared && echo *)" = "$key $key.124 $entry notes"

tally
