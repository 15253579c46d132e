# SPDX-License-Identifier: MIT
# An overlay port of this checkout: vcpkg install attngen --host-triplet=… --overlay-ports=packaging/vcpkg
# find_package(attngen) then has attngen_add_layer(). Both programs are of the machine that builds.
get_filename_component(source "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(VCPKG_POLICY_EMPTY_INCLUDE_FOLDER enabled)
set(VCPKG_POLICY_ALLOW_EXES_IN_BIN enabled)
find_program(make NAMES gmake make REQUIRED)

set(build "${CURRENT_BUILDTREES_DIR}/${TARGET_TRIPLET}-rel")
set(lua "LUA=lua" "LUA_CFLAGS=-I${CURRENT_HOST_INSTALLED_DIR}/include"
    "LUA_LIBS=-L${CURRENT_HOST_INSTALLED_DIR}/lib -llua -ldl")
vcpkg_execute_required_process(
    COMMAND "${make}" -j "${VCPKG_CONCURRENCY}" "BUILD=${build}" ${lua} all
    WORKING_DIRECTORY "${source}" LOGNAME "build-${TARGET_TRIPLET}")
vcpkg_execute_required_process(
    COMMAND "${make}" "BUILD=${build}" ${lua} PREFIX= "DESTDIR=${CURRENT_PACKAGES_DIR}" "libdir=/share"
            "docdir=/share/attngen/doc" "bindir=/tools/attngen" install
    WORKING_DIRECTORY "${source}" LOGNAME "install-${TARGET_TRIPLET}")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
