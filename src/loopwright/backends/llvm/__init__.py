"""Machine code by LLVM."""
