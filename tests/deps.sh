#!/usr/bin/env bash
# deps.sh build [test] [peers]: installs what building and the demo need (the tests; `make bench-peers`), unless it is
# here already.
#
# On Debian and its kin with apt-get, as root or through sudo. Elsewhere it only says which packages to install.
# Exit codes: 0 all is here, 3 something is missing and cannot be installed.
set -u

includes() { printf '#include <%s>\n' "${@}" | ${CC:-cc} -E - >/dev/null 2>&1; }
has_compiler() { command -v ${CC:-cc} >/dev/null; }
has_libc()     { includes stdio.h; }
has_pkgconfig() { command -v pkg-config >/dev/null; }
has_cmocka()   { includes stdarg.h stddef.h setjmp.h stdint.h cmocka.h; }
has_clang()    { command -v clang >/dev/null; }
has_cxx()      { command -v ${CXX:-g++} >/dev/null; }
has_venv()     { ${PYTHON:-python3} -c 'import ensurepip, venv' 2>/dev/null; }
has_openblas() { includes cblas.h && [ -n "$(${CC:-cc} -print-file-name=libopenblas.so | grep /)" ]; }
has_onednn()   { includes dnnl.h; }
has_lua() {
    local name
    for name in lua5.4 lua-5.4 lua54 lua; do
        pkg-config --exists "$name >= 5.4" "$name < 5.5" 2>/dev/null && return 0
    done
    return 1
}

# for      check          Debian          Fedora           Arch    Alpine        Homebrew
needs='
build      has_compiler   gcc             gcc              gcc     gcc           gcc
build      has_libc       libc6-dev       glibc-devel      glibc   musl-dev      -
build      has_pkgconfig  pkg-config      pkgconf          pkgconf pkgconf       pkgconf
build      has_lua        liblua5.4-dev   lua-devel        lua54   lua5.4-dev    lua@5.4
test       has_cmocka     libcmocka-dev   libcmocka-devel  cmocka  cmocka-dev    cmocka
test       has_clang      clang           clang            clang   clang         llvm
test       has_cxx        g++             gcc-c++          gcc     g++           gcc
peers      has_cxx        g++             gcc-c++          gcc     g++           gcc
peers      has_venv       python3-venv    python3          python  python3       python
peers      has_openblas   libopenblas-dev openblas-devel   openblas openblas-dev openblas
peers      has_onednn     libdnnl-dev     onednn-devel     onednn  onednn-dev    onednn
'

# missing COLUMN: the packages, in that column of the table, of what is asked for and not here
missing() {
    local column=$1 row
    while read -ra row; do
        [ ${#row[@]} -gt 0 ] || continue
        [[ " $wanted " == *" ${row[0]} "* ]] || continue
        [ "${row[$column]}" = - ] || "${row[1]}" || printf '%s ' "${row[$column]}"
    done <<<"$needs"
}

wanted="$*"
case " $wanted " in
    "  ") echo "usage: deps.sh build [test] [peers]" >&2; exit 2 ;;
esac
packages=$(missing 2)
if [ -z "$packages" ]; then
    echo "deps: everything is here"
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    {
        echo "deps: missing here; install them with this system's package manager and come back:"
        echo "  Fedora    dnf install $(missing 3)"
        echo "  Arch      pacman -S $(missing 4)"
        echo "  Alpine    apk add $(missing 5)"
        echo "  Homebrew  brew install $(missing 6)"
        echo "  Debian    apt-get install $packages"
    } >&2
    exit 3
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps: needs root or sudo to run: apt-get install $packages" >&2
        exit 3
    fi
    root=(sudo)
fi
echo "deps: installing $packages"
"${root[@]}" apt-get update || echo "deps: apt-get update failed; trying with the lists that are here" >&2
# shellcheck disable=SC2086 # one word a package
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages || {
    echo "deps: apt-get could not install: $packages" >&2
    exit 3
}
packages=$(missing 2)
if [ -n "$packages" ]; then
    echo "deps: installed, but still not found: $packages" >&2
    exit 3
fi
