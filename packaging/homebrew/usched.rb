# SPDX-License-Identifier: MIT

# A formula for Homebrew on Linux.
class Usched < Formula
  desc "Cooperative threads that share stacks"
  homepage "https://example.org/usched"
  url "https://example.org/usched/usched-@version@.tar.gz"
  sha256 "@sha256@"
  license "MIT"

  depends_on "pkgconf" => :test
  depends_on :linux

  def install
    system "make", "install", "prefix=#{prefix}", "libdir=#{lib}", "includedir=#{include}",
                   "mandir=#{man}"
  end

  test do
    (testpath/"test.c").write <<~C
      #include <usched/rr.h>

      static int runs;

      static void run(void *unused)
      {
        (void)unused;
        runs++;
      }

      int main(void)
      {
        struct uprocs *rr;

        return rr_create(NULL, &rr) || rr_start(rr, run, NULL, NULL)
               || uprocs_destroy(rr, USCHED_NEVER) || runs != 1;
      }
    C
    flags = shell_output("pkgconf --cflags --libs usched").split
    system ENV.cc, "test.c", "-o", "test", *flags
    system "./test"
  end
end
