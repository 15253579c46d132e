# SPDX-License-Identifier: MIT
"""python -m attngen …: the program attngen; python -m attngen attnrun …: the other one."""
import sys

from . import programs

if sys.argv[1:2] == ["attnrun"]:
    del sys.argv[1]
    programs.attnrun()
programs.attngen()
