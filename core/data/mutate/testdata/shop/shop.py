"""Prices of a small shop."""


def discount(price, percent):
    """The price after a discount, never below 0."""
    if percent < 0 or percent > 100:
        raise ValueError("percent")
    return max(0, price - price * percent // 100)


def shipping(weight):
    """What it costs to send a parcel of some grams."""
    if weight <= 0:
        return 0
    if weight < 1000:
        return 4
    return 4 + (weight - 1000) // 500


def untested(a, b):
    return a * b + 1
