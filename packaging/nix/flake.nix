# SPDX-License-Identifier: MIT
# attngen and attnrun as a Nix flake, of this checkout: `nix run '.?dir=packaging/nix' -- --help`, or
# `nix build '.?dir=packaging/nix'`. Its sources are what git knows of the checkout.
{
  description = "Attention layers as C, generated from a layer's spec";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forAll = nixpkgs.lib.genAttrs systems;
      source = ../..;
      version = builtins.head (builtins.match ".*ATTNGEN_VERSION \"([^\"]*)\".*"
        (builtins.readFile (source + "/gen/base/version.h")));
    in {
      packages = forAll (system:
        let pkgs = nixpkgs.legacyPackages.${system};
        in {
          default = pkgs.stdenv.mkDerivation {
            pname = "attngen";
            inherit version;
            src = source;
            nativeBuildInputs = [ pkgs.pkg-config ];
            buildInputs = [ pkgs.lua5_4 ];
            postPatch = "patchShebangs packaging";
            enableParallelBuilding = true;
            makeFlags = [ "PREFIX=$(out)" "BUILD=build" ];
            meta = {
              description = "Attention layers as C, generated from a layer's spec";
              license = pkgs.lib.licenses.mit;
              platforms = systems;
              mainProgram = "attngen";
            };
          };
        });
    };
}
