# Formula for Homebrew on Linux. Not tested: we haven't run Homebrew. Replace the digests by those in SHA256SUMS.
class Cannery < Formula
  desc "Static web server that compiles a site into one immutable archive"
  homepage "https://github.com/cannery/cannery"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :x86_64
  depends_on :linux

  on_intel do
    url "https://github.com/cannery/cannery/releases/download/v0.1.0/cannery-0.1.0-x86_64-unknown-linux-musl.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end

  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install Dir["share/bash-completion/completions/*"]
    zsh_completion.install Dir["share/zsh/site-functions/*"]
    fish_completion.install Dir["share/fish/vendor_completions.d/*"]
  end

  test do
    (testpath/"site/index.html").write "<title>canned</title>"
    system bin/"cannery-archiver", testpath/"site", testpath/"site.cdb", "--strict"
    assert_match "1 path", shell_output("#{bin}/cannery verify site.cdb")
  end
end
