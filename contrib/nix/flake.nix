# Nix flake: `nix build ./contrib/nix`. Not tested: we haven't run Nix.
{
  description = "Static web server that compiles a site into one immutable archive";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      eachSystem = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
    in
    {
      packages = eachSystem (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "cannery";
          version = "0.1.0";
          src = pkgs.lib.cleanSource ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          buildType = "dist";
          cargoBuildFlags = [ "--package" "cannery-cli" ];
          # The tests need other servers, browsers and root.
          doCheck = false;
          nativeBuildInputs = [ pkgs.cmake pkgs.installShellFiles ];
          postInstall = ''
            for program in cannery cannery-archiver cannery-server; do
              $out/bin/$program --man > $program.1
              installManPage $program.1
              installShellCompletion --cmd $program \
                --bash <($out/bin/$program --completions bash) \
                --zsh <($out/bin/$program --completions zsh) \
                --fish <($out/bin/$program --completions fish)
            done
          '';
          meta = {
            description = "Static web server that compiles a site into one immutable archive";
            homepage = "https://github.com/cannery/cannery";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "cannery";
          };
        };
      });
    };
}
