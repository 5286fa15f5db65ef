"""What ``docs/benchmarks`` quotes: each module is a command that writes a JSON file to ``benchmarks/results``."""

import os

# Before anything loads a numerical library: every figure is for one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[_name] = "1"
