#!/usr/bin/env python3
"""Count the functions between main() and the kernel that adds to the gradient of a layer's weights.

    scripts/count_frames.py PROGRAM [train's options]

Runs `PROGRAM train` for a step in gdb, stops when cpu::linear_backward is entered for the first time, and prints
accrue's own functions on the stack. It leaves out functions that the compiler has inlined, and functions of the
standard library and of the command line's parser.
"""

import re
import subprocess
import sys

if len(sys.argv) < 2:
    sys.exit(__doc__)
program, *options = sys.argv[1:]
command = ["train", *(options or ["--model", "mlp", "--data", "digits"]), "--steps", "1", "--threads", "1"]
result = subprocess.run(
    ["gdb", "-q", "-batch", "-ex", "set pagination off", "-ex", "break main", "-ex", "run",
     "-ex", "rbreak ^accrue::cpu::linear_backward", "-ex", "continue", "-ex", "backtrace", "--args", program, *command],
    capture_output=True, text=True, check=False)
frames = [re.sub(r"^#\d+ +(0x[0-9a-f]+ in )?", "", line) for line in result.stdout.splitlines() if line.startswith("#")]
own = [frame for frame in frames if not re.match(r"(void |[\w:]+ )?(std::|CLI::)", frame)]
if not own:
    sys.exit(f"no stack: {(result.stderr or result.stdout)[-500:]}")
for frame in own:
    print(re.sub(r"[<(].*", "", frame.replace("(anonymous namespace)", "_")) or frame[:80])
print(f"{len(own)} functions")
