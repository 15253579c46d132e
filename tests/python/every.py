#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the modules test_NAME.py beside this file, or those named; ends with "N passed, N failed, N skipped"."""
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
names = [f"test_{name}" for name in sys.argv[1:]] or sorted(path.stem for path in HERE.glob("test_*.py"))
result = unittest.TextTestRunner(sys.stdout, verbosity=0).run(unittest.defaultTestLoader.loadTestsFromNames(names))
for case, why in result.skipped:
    print(f"skipped: {case.id()}: {why}")
bad = {getattr(case, "test_case", case).id() for case, _ in result.failures + result.errors}  # parts of a test are one
failed, skipped = len(bad), len(result.skipped)
print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
