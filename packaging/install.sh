#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# install.sh install|uninstall: puts what was built where it belongs, or removes just that. Called by the Makefile.
#
# Needs BUILD, DESTDIR (may be empty) and the folders bindir, mandir, libdir, datadir, docdir as absolute paths.
set -eu
cd "$(dirname "$0")/.."
umask 022
how=$1
made=$BUILD/share
: "${bindir:?}" "${mandir:?}" "${libdir:?}" "${datadir:?}" "${docdir:?}"

# put MODE FOLDER NAME FILE: the file as FOLDER/NAME
put() {
    local folder=$DESTDIR$2
    if [ "$how" = uninstall ]; then
        rm -f "$folder/$3"
        while :; do # and the folders that are empty then, but for those that a prefix has anyway
            case $folder in
            "$DESTDIR$datadir"/* | "$DESTDIR$libdir"/* | "$DESTDIR$docdir" | "$DESTDIR$docdir"/*) ;;
            *) return 0 ;;
            esac
            [ ! -d "$folder" ] || rmdir "$folder" 2>/dev/null || return 0
            folder=${folder%/*}
        done
    fi
    mkdir -p "$folder"
    # under another name first: a program that runs, or half a file, is never written over
    rm -f "$folder/.$3.new"
    cp "$4" "$folder/.$3.new"
    chmod "$1" "$folder/.$3.new"
    mv -f "$folder/.$3.new" "$folder/$3"
}

# put_all MODE FOLDER FILE…: each under its own name
put_all() {
    local mode=$1 folder=$2 file
    shift 2
    for file; do put "$mode" "$folder" "${file##*/}" "$file"; done
}

put_all 755 "$bindir" "$BUILD/attngen" "$BUILD/attnrun"
put_all 644 "$mandir/man1" "$made/attngen.1" "$made/attnrun.1"
put_all 644 "$mandir/man5" "$made/attngen-layer.5"
put_all 644 "$libdir/cmake/attngen" "$made/attngen-config.cmake" "$made/attngen-config-version.cmake"
put_all 644 "$datadir/pkgconfig" "$made/attngen.pc"
put 644 "$datadir/bash-completion/completions" attngen "$made/attngen.bash"
put 644 "$datadir/bash-completion/completions" attnrun "$made/attngen.bash"
put_all 644 "$datadir/fish/vendor_completions.d" "$made/attngen.fish" "$made/attnrun.fish"
put_all 644 "$datadir/zsh/site-functions" "$made/_attngen"
put_all 644 "$docdir" README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE
put_all 644 "$docdir/docs" docs/*.md docs/*.svg

# the specs and the projects that use them, with their folders, but nothing that was built there
while IFS= read -r file; do
    mode=644
    [ ! -x "$file" ] || mode=755
    folder=$(dirname "$file")
    put "$mode" "$datadir/attngen/$folder" "${file##*/}" "$file"
done < <(find examples -name out -prune -o -type f ! -name demo.sh \( -name '*.layer' -o -name '*.ids' -o -name '*.[chS]' \
             -o -name '*.txt' -o -name '*.ld' -o -name '*.sh' -o -name '*.py' -o -name '*.sbatch' -o -name '*.safetensors' \
             -o -name Makefile -o -name '*.mk' -o -name CMakeLists.txt -o -name '*.cmake' -o -name meson.build -o -name '*.ini' \
             -o -name '*.md' -o -name '*.jsonl' -o -name '*.ipynb' \) -print | LC_ALL=C sort)
