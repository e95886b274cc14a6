import unittest

from shop import discount, shipping


class DiscountTest(unittest.TestCase):
    def test_half(self):
        self.assertEqual(discount(10, 50), 5)

    def test_none(self):
        self.assertEqual(discount(10, 0), 10)

    def test_all(self):
        self.assertEqual(discount(10, 100), 0)

    def test_too_much(self):
        with self.assertRaises(ValueError):
            discount(10, 101)
        with self.assertRaises(ValueError):
            discount(10, -1)


class ShippingTest(unittest.TestCase):
    def test_light(self):
        self.assertEqual(shipping(1), 4)
        self.assertEqual(shipping(999), 4)

    def test_heavy(self):
        self.assertEqual(shipping(1000), 4)
        self.assertEqual(shipping(2000), 6)

    def test_nothing(self):
        self.assertEqual(shipping(0), 0)
