"""From modules to callables: machine code, disk cache, threads, array arguments."""
