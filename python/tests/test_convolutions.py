"""Tests of convolutions and pools with PyTorch's arguments: of the installed package."""

import unittest

import accrue


class Layers(unittest.TestCase):
    def test_take_a_number_or_one_for_rows_and_one_for_columns(self):
        for layer, described in (
                (accrue.Conv2d(4, 8, (3, 1), (2, 1), (1, 0), 1, 2),
                 "conv 3x1 4 -> 8, stride 2x1, padding 1x0, groups 2"),
                (accrue.Conv2d(4, 8, 3, padding="same", dilation=(1, 2), bias=False),
                 "conv 3x3 4 -> 8, stride 1, padding 1x2"),
                (accrue.ConvTranspose2d(4, 6, 2, 2, 0, 1, 2, True, (1, 2)),
                 "transposed conv 2x2 4 -> 6, stride 2, padding 0, groups 2"),
                (accrue.MaxPool2d(3, 2, 1), "max-pool 3x3, stride 2, padding 1"),
                (accrue.MaxPool2d((3, 2), ceil_mode=True), "max-pool 3x2, stride 3x2, rounded up"),
                (accrue.MaxPool2d(3, 1, 1, (2, 1)),
                 "max-pool 3x3, stride 1, padding 1, dilation 2x1"),
                (accrue.AvgPool2d(3, 2, 1, False, False), "average-pool 3x3, stride 2, padding 1"),
                (accrue.AdaptiveAvgPool2d((3, 4)), "adaptive average-pool to 3x4")):
            self.assertEqual(repr(layer), described)

    def test_refuse_what_they_cannot_do(self):
        for make, message in (
                (lambda: accrue.Conv2d(4, 8, 3, 2, "same"), "padding same with stride 2"),
                (lambda: accrue.Conv2d(4, 8, 3, groups=3), "expected groups to divide both"),
                (lambda: accrue.MaxPool2d(2, return_indices=True), "return_indices=False"),
                (lambda: accrue.AvgPool2d(2, divisor_override=3), "divisor_override=None")):
            with self.assertRaisesRegex(accrue.Error, message):
                make()


if __name__ == "__main__":
    unittest.main()
