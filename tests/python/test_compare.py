# SPDX-License-Identifier: MIT
"""compare.py: what other tests compare by fails on NaN, on missing numbers and on none."""
import math
import unittest

from compare import furthest


class Compared(unittest.TestCase):
    def test_furthest(self):
        self.assertEqual(furthest([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.5, 3.0, 4.25]), 0.5)
        self.assertEqual(furthest([1.0, -8.0], [1.0, -4.0], relative=True), 1.0)
        self.assertEqual(furthest([math.inf, 1.0], [math.inf, 1.0]), 0.0)
        for a, b in (([1.0], [1.0, 2.0]), ([], []), ([math.inf], [-math.inf]), ([math.inf], [1.0]),
                     ([0.0, math.nan], [0.0, 1.0]), ([math.nan, 0.0], [1.0, 0.0]), ([math.nan], [math.nan])):
            for pair in ((a, b), (b, a)):
                self.assertEqual(furthest(*pair), math.inf, pair)
                self.assertFalse(furthest(*pair, relative=True) < 1, pair)
