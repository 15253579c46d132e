#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# deb.sh FOLDER [-S]: writes the Debian source package of this checkout into FOLDER and, without -S, builds the package
# there, by dpkg-buildpackage. Called by `make deb`. The files are those that git knows.
set -eu
cd "$(dirname "$0")/.."
folder=$1
version=$(sed -n 's/.*ATTNGEN_VERSION "\(.*\)"/\1/p' gen/base/version.h)
mkdir -p "$folder"
tree=$(cd "$folder" && pwd)/attngen-$version
rm -rf "$tree"
mkdir "$tree"
git ls-files -z | tar -c --null -T - | tar -x -C "$tree"
tar -cJf "${tree%/*}/attngen_$version.orig.tar.xz" --sort=name --mtime=@0 --owner=0 --group=0 -C "${tree%/*}" "attngen-$version"
cp -R packaging/debian "$tree/debian"
cd "$tree"
unset MAKEFLAGS MAKELEVEL MFLAGS CC CFLAGS BUILD
dpkg-buildpackage -us -uc "${@:2}"
