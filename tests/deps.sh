#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# deps.sh build [test] [extra] [peers]: installs what building and the demo need (the tests; the tests that are skipped
# without it; `make bench-peers`), unless it is here already.
#
# On Debian and its kin with apt-get and the options $APT_OPTIONS, as root or through sudo. Elsewhere it only says which
# packages to install.
# Exit codes: 0 all is here, but for some extra; 3 something is missing and cannot be installed.
set -u

includes() { printf '#include <%s>\n' "${@}" | ${CC:-cc} -E - >/dev/null 2>&1; }
has_compiler() { command -v ${CC:-cc} >/dev/null; }
has_libc()     { includes stdio.h; }
has_cmocka()   { includes stdarg.h stddef.h setjmp.h stdint.h cmocka.h; }
has_clang_omp() { echo 'int main(void) { return 0; }' | clang -fopenmp -o /dev/null -x c - 2>/dev/null; }
has_fuzzer()   { echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer -o /dev/null -x c - 2>/dev/null; }
has_simde()    { includes simde/x86/avx512.h; }
has_cxx()      { command -v ${CXX:-g++} >/dev/null; }
has_arm_libc() { aarch64-linux-gnu-gcc -print-file-name=libc.so 2>/dev/null | grep -q /; }
has_riscv_libc() { riscv64-linux-gnu-gcc -print-file-name=libc.so 2>/dev/null | grep -q /; }
has_s390x_libc() { s390x-linux-gnu-gcc -print-file-name=libc.so 2>/dev/null | grep -q /; }
has_i686_libc() { i686-linux-gnu-gcc -print-file-name=libc.so 2>/dev/null | grep -q /; }
has_wasi()     { echo '#include <stdio.h>' | clang-19 --target=wasm32-wasi -E - >/dev/null 2>&1; }
has_wasi_rt()  { [ -e "$(clang-19 --target=wasm32-wasi -print-libgcc-file-name 2>/dev/null)" ]; }
has_venv()     { ${PYTHON:-python3} -c 'import ensurepip, venv' 2>/dev/null; }
has_gomp()     { [ -n "$(${CC:-cc} -print-file-name=libgomp.so.1 | grep /)" ]; }
has_openblas() { includes cblas.h && [ -n "$(${CC:-cc} -print-file-name=libopenblas.so | grep /)" ]; }
has_onednn()   { includes dnnl.h; }
can_valgrind() { valgrind -q true >/dev/null 2>&1; } # it may want the C library's symbols
has_parallel() { parallel --version 2>/dev/null | grep -q '^GNU parallel'; }
has_lua() {
    local name
    for name in lua5.4 lua-5.4 lua54 lua; do
        pkg-config --exists "$name >= 5.4" "$name < 5.5" 2>/dev/null && return 0
    done
    return 1
}

# A check is a function above, or a command that has to be there.
# for  check                  Debian                     Fedora                    Arch                     Alpine               Homebrew
needs='
build  has_compiler           gcc                        gcc                       gcc                      gcc                  gcc
build  has_libc               libc6-dev                  glibc-devel               glibc                    musl-dev             -
build  pkg-config             pkg-config                 pkgconf                   pkgconf                  pkgconf              pkgconf
build  awk                    mawk                       gawk                      gawk                     gawk                 gawk
build  has_lua                liblua5.4-dev              lua-devel                 lua54                    lua5.4-dev           lua@5.4
test   has_cmocka             libcmocka-dev              libcmocka-devel           cmocka                   cmocka-dev           cmocka
test   clang                  clang                      clang                     clang                    clang                llvm
test   has_cxx                g++                        gcc-c++                   gcc                      g++                  gcc
extra  has_clang_omp          libomp-dev                 libomp-devel              openmp                   openmp-dev           libomp
extra  has_fuzzer             libclang-rt-dev            compiler-rt               compiler-rt              compiler-rt          llvm
extra  has_simde              libsimde-dev               simde-devel               simde                    simde-dev            simde
extra  cmake                  cmake                      cmake                     cmake                    cmake                cmake
extra  ninja                  ninja-build                ninja-build               ninja                    samurai              ninja
extra  meson                  meson                      meson                     meson                    meson                meson
extra  mandoc                 mandoc                     mandoc                    mandoc                   mandoc               mandoc
extra  groff                  groff-base                 groff-base                groff                    groff                groff
extra  fish                   fish                       fish                      fish                     fish                 fish
extra  zsh                    zsh                        zsh                       zsh                      zsh                  zsh
extra  aarch64-linux-gnu-gcc  gcc-aarch64-linux-gnu      gcc-aarch64-linux-gnu     aarch64-linux-gnu-gcc    -                    -
extra  has_arm_libc           libc6-dev-arm64-cross      -                         aarch64-linux-gnu-glibc  -                    -
extra  qemu-aarch64           qemu-user                  qemu-user                 qemu-user                qemu-aarch64         -
extra  riscv64-linux-gnu-gcc  gcc-riscv64-linux-gnu      gcc-riscv64-linux-gnu     riscv64-linux-gnu-gcc    -                    -
extra  has_riscv_libc         libc6-dev-riscv64-cross    -                         riscv64-linux-gnu-glibc  -                    -
extra  qemu-riscv64           qemu-user                  qemu-user                 qemu-user                qemu-riscv64         -
extra  s390x-linux-gnu-gcc    gcc-s390x-linux-gnu        gcc-s390x-linux-gnu       s390x-linux-gnu-gcc      -                    -
extra  has_s390x_libc         libc6-dev-s390x-cross      -                         -                        -                    -
extra  qemu-x86_64            qemu-user                  qemu-user                 qemu-user                qemu-x86_64          -
extra  i686-linux-gnu-gcc     gcc-i686-linux-gnu         -                         -                        -                    -
extra  has_i686_libc          libc6-dev-i386-cross       -                         -                        -                    -
extra  x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64-win32 mingw64-gcc               mingw-w64-gcc            mingw-w64-gcc        mingw-w64
extra  wine                   wine                       wine                      wine                     wine                 -
extra  zig                    -                          zig                       zig                      zig                  zig
extra  ld.lld-19              lld-19                     -                         -                        -                    -
extra  node                   nodejs                     nodejs                    nodejs                   nodejs               node
extra  has_wasi               wasi-libc                  wasi-libc-devel           wasi-libc                -                    -
extra  has_wasi_rt            libclang-rt-19-dev-wasm32  -                         wasi-compiler-rt         -                    -
extra  gcc-11                 gcc-11                     -                         -                        -                    gcc@11
extra  gcc-12                 gcc-12                     -                         -                        -                    gcc@12
extra  clang-14               clang-14                   -                         -                        -                    llvm@14
extra  clang-19               clang-19                   -                         -                        -                    llvm@19
extra  tcc                    tcc                        tcc                       tcc                      tcc                  -
extra  valgrind               valgrind                   valgrind                  valgrind                 valgrind             -
extra  can_valgrind           libc6-dbg                  -                         -                        -                    -
peers  gnuplot                gnuplot-nox                gnuplot                   gnuplot                  gnuplot              gnuplot
extra  xmllint                libxml2-utils              libxml2                   libxml2                  libxml2-utils        libxml2
extra  python3                python3                    python3                   python                   python3              python
extra  has_parallel           parallel                   parallel                  parallel                 parallel             parallel
extra  slurmctld              slurmctld                  slurm-slurmctld           -                        -                    -
extra  slurmd                 slurmd                     slurm-slurmd              -                        -                    -
extra  sbatch                 slurm-client               slurm                     -                        -                    -
extra  munged                 munge                      munge                     munge                    munge                -
extra  nm                     binutils                   binutils                  binutils                 binutils             -
extra  qemu-system-aarch64    qemu-system-arm            qemu-system-aarch64-core  qemu-system-aarch64      qemu-system-aarch64  qemu
peers  has_cxx                g++                        gcc-c++                   gcc                      g++                  gcc
peers  has_venv               python3-venv               python3                   python                   python3              python
peers  has_gomp               libgomp1                   libgomp                   gcc-libs                 libgomp              libgomp1
peers  has_openblas           libopenblas-dev            openblas-devel            openblas                 openblas-dev         openblas
peers  has_onednn             libdnnl-dev                onednn-devel              onednn                   onednn-dev           onednn
'

is_here() { PATH=$PATH:/usr/sbin; if [ "$(type -t "$1")" = function ]; then "$1"; else command -v "$1" >/dev/null; fi; }

# missing COLUMN CLASSES: the packages, in that column of the table, of what is asked for and not here
missing() {
    local column=$1 wanted=$2 row
    while read -ra row; do
        [ ${#row[@]} -gt 0 ] || continue
        [[ " $wanted " == *" ${row[0]} "* ]] || continue
        [ "${row[$column]}" = - ] || is_here "${row[1]}" || printf '%s ' "${row[$column]}"
    done <<<"$needs"
}

wanted="$*"
case " $wanted " in
    "  ") echo "usage: deps.sh build [test] [extra] [peers]" >&2; exit 2 ;;
esac
packages=$(missing 2 "$wanted")
if [ -z "$packages" ]; then
    echo "deps: everything is here"
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    {
        echo "deps: missing here; install them with this system's package manager and come back:"
        echo "  Fedora    dnf install $(missing 3 "$wanted")"
        echo "  Arch      pacman -S $(missing 4 "$wanted")"
        echo "  Alpine    apk add $(missing 5 "$wanted")"
        echo "  Homebrew  brew install $(missing 6 "$wanted")"
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
"${root[@]}" apt-get update || echo "deps: apt-get update failed; trying with the lists that are here" >&2
required=$(missing 2 "${wanted/extra/}") extra=
packages=$(missing 2 "$wanted")
# shellcheck disable=SC2086 # one word a package
known=$(apt-cache show --no-all-versions $packages 2>/dev/null | sed -n 's/^Package: //p' | paste -sd ' ')
for package in $packages; do
    case " $required " in *" $package "*) continue ;; esac
    if [[ " $known " == *" $package "* ]]; then
        extra="$extra $package"
    else
        echo "deps: this system has no package $package: the tests that need it will be skipped"
    fi
done
# shellcheck disable=SC2086 # one word a package
apt_install() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${APT_OPTIONS-} $*
}
echo "deps: installing $required$extra"
if ! apt_install "$required" "$extra"; then
    if [ -z "$extra" ] || { [ -n "$required" ] && ! apt_install "$required"; }; then
        echo "deps: apt-get could not install: $required$extra" >&2
        exit 3
    fi
    for package in $extra; do # one that cannot be had keeps no other away
        apt_install "$package" || echo "deps: apt-get could not install $package: tests that need it will be skipped"
    done
fi
required=$(missing 2 "${wanted/extra/}")
if [ -n "$required" ]; then
    echo "deps: installed, but still not found: $required" >&2
    exit 3
fi
