import os
import unittest


class FlakyTest(unittest.TestCase):
    def test_one_time_in_three(self):
        # Another seed of hashes each repeat: it passes in one of them only.
        self.assertEqual(os.environ["PYTHONHASHSEED"], "0")

    def test_broken(self):
        self.assertEqual(1, 2)
