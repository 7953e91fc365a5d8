"""Layers with several inputs or results. judges/test_parts.py compares what they compute."""

import unittest

import numpy as np

import accrue

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(16, 5, 8)).astype(np.float32)
Y = np.arange(16, dtype=np.int32) % 3
WHOLE = {"steps": 2, "effective_batch": 8, "micro_batch": 8, "lr": 0.1, "optimizer": "sgd", "no_shuffle": True}


def network(call, features=8):
    x = accrue.input(5, 8)
    return accrue.Network(x, accrue.Linear(features, 3)(call(x), name="head"))


class Names(unittest.TestCase):
    def test_are_pytorchs(self):
        encoder = accrue.TransformerEncoder(accrue.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2,
                                            accrue.LayerNorm(8))
        of_layer = ["self_attn.in_proj_bias", "self_attn.in_proj_weight", "self_attn.out_proj.weight",
                    "self_attn.out_proj.bias", "norm1.weight", "norm1.bias", "linear1.weight", "linear1.bias",
                    "linear2.weight", "linear2.bias", "norm2.weight", "norm2.bias"]
        for call, names in (
                (lambda x: encoder(x, name="encoder")[:, 0],
                 [f"encoder.layers.{i}.{name}" for i in range(2) for name in of_layer] +
                 ["encoder.norm.weight", "encoder.norm.bias"]),
                (lambda x: accrue.LSTM(8, 8, 1, proj_size=4, batch_first=True)(
                    accrue.GRU(8, 8, bias=False, batch_first=True)(x)[0])[0].flatten(1),
                 ["0.weight_ih_l0", "0.weight_hh_l0"] +
                 [f"1.{name}_l0" for name in ("weight_ih", "bias_ih", "bias_hh", "weight_hh", "weight_hr")])):
            features = 8 if "encoder" in names[0] else 20
            weights = accrue.train(network(call, features), (X, Y), **WHOLE).weights
            self.assertEqual(sorted(weights), sorted([*names, "head.weight", "head.bias"]))

    def test_of_a_layer_that_is_called_again_are_the_same(self):
        attention = accrue.MultiheadAttention(8, 2, batch_first=True)

        def call(x):
            for _ in range(2):
                x = attention(x, x, x, name="attention")[0]
            return x[:, 0]

        self.assertEqual(len(accrue.train(network(call), (X, Y), **WHOLE).weights), 6)
        with self.assertRaisesRegex(accrue.Error, "is called as 'b', and was 'attention' before"):
            x = accrue.input(5, 8)
            attention(x, x, x, name="b")

    def test_of_calls_say_where_they_are(self):
        text = repr(network(lambda x: accrue.LSTM(8, 8, batch_first=True)(x, name="lstm")[0][:, 0]))
        self.assertRegex(text, r"sigmoid\(%\d+\)  # lstm\.%\d+")

    def test_of_a_part_stand_before_others(self):
        def call(x):
            with accrue.scope("body"):
                with accrue.scope("a"):
                    x = accrue.Linear(8, 8)(x, name="linear") * accrue.parameter(8, "gamma", mean=1)
                return accrue.Linear(8, 8)(accrue.Linear(8, 8)(x))[:, 0]

        self.assertEqual(sorted(accrue.train(network(call), (X, Y), **WHOLE).weights),
                         ["body.0.bias", "body.0.weight", "body.1.bias", "body.1.weight", "body.a.gamma",
                          "body.a.linear.bias", "body.a.linear.weight", "head.bias", "head.weight"])


class Calls(unittest.TestCase):
    def test_are_the_same_for_every_split(self):
        """Also where elements are dropped."""
        for call in (lambda x: accrue.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=True)(x)[:, 0],
                     lambda x: accrue.LSTM(8, 4, 2, dropout=0.3, bidirectional=True, batch_first=True)(x)[0][:, 2]):
            runs = [accrue.train(network(call), (X, Y), **{**WHOLE, "micro_batch": n}).weights for n in (8, 3, 1)]
            for run in runs[1:]:
                for name, weight in runs[0].items():
                    self.assertLess(np.abs(run[name] - weight).max(), 2e-6, name)

    def test_have_pytorchs_results(self):
        x, mask = accrue.input(5, 8), accrue.input(5, dtype="int32", name="mask")
        N = x.shape[0]
        output, weights = accrue.MultiheadAttention(8, 2, batch_first=True)(x, x[:, :3], x[:, :3], mask[:, :3])
        self.assertEqual((output.shape, weights.shape), ((N, 5, 8), (N, 5, 3)))
        attention = accrue.MultiheadAttention(8, 2)
        t = x.transpose(0, 1)
        self.assertEqual([v.shape for v in attention(t, t, t, average_attn_weights=False)], [(5, N, 8), (N, 2, 5, 5)])
        self.assertIsNone(attention(t, t, t, need_weights=False)[1])
        output, (h, c) = accrue.LSTM(8, 6, 2, bidirectional=True, proj_size=4)(t)
        self.assertEqual((output.shape, h.shape, c.shape), ((5, N, 8), (4, N, 4), (4, N, 6)))
        output, h = accrue.GRU(8, 6, batch_first=True)(x)
        self.assertEqual((output.shape, h.shape), ((N, 5, 6), (1, N, 6)))

    def test_hide_what_a_comparison_says(self):
        def run(mask_of, dtype, mask):
            x, m = accrue.input(5, 8), accrue.input(5, dtype=dtype, name="mask")
            y = accrue.MultiheadAttention(8, 2, batch_first=True)(x, x, x, mask_of(m), name="attention")[0][:, 0]
            net = accrue.Network({"x": x, "mask": m}, {"y": accrue.Linear(8, 3)(y, name="head")})
            return accrue.train(net, {"x": X, "mask": mask, "y": Y}, **WHOLE).weights

        mask = np.arange(5 * len(X)).reshape(len(X), 5) % 5 % 3 == 2
        compared = run(lambda m: accrue.greater(m, 0.5)[:, :], "float32", mask.astype(np.float32))
        for name, weight in run(lambda m: m, "int32", mask.astype(np.int32)).items():
            np.testing.assert_allclose(compared[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)

    def test_of_one_step_use_all_weights(self):
        x = accrue.input(1, 8)
        y = accrue.LSTM(8, 4, batch_first=True)(x, name="lstm")[0].flatten(1)
        weights = accrue.train(accrue.Network(x, accrue.Linear(4, 3)(y, name="head")), (X[:, :1], Y), **WHOLE).weights
        self.assertIn("lstm.weight_hh_l0", weights)

    def test_compute_in_16_bits(self):
        for call in (lambda x: accrue.MultiheadAttention(8, 2, batch_first=True)(x, x[:, 1:], x[:, 1:])[0][:, 0],
                     lambda x: accrue.GRU(8, 8, batch_first=True)(x)[1][0]):
            runs = [accrue.train(network(call), (X, Y), precision=precision, **WHOLE).losses
                    for precision in ("bf16", "fp32")]
            np.testing.assert_allclose(runs[0], runs[1], rtol=0.05)


class Refusals(unittest.TestCase):
    def test_name_the_argument(self):
        x = accrue.input(5, 8)
        for make, said in (
                (lambda: accrue.MultiheadAttention(8, 3), "embed_dim=8 and num_heads=3"),
                (lambda: accrue.MultiheadAttention(8, 2, 1.0), "dropout=1.0"),
                (lambda: accrue.MultiheadAttention(8, 2, device="cuda"), "device='cuda'"),
                (lambda: accrue.LSTM(8, 4, dtype="float64"), "dtype='float64'.*precision="),
                (lambda: accrue.GRU(8, 4, proj_size=2), "proj_size=2: expected 0"),
                (lambda: accrue.LSTM(8, 4, proj_size=4), "proj_size=4: expected a number from 0 to less than"),
                (lambda: accrue.LSTM(8, 4, dropout=0.5), "dropout=0.5 and num_layers=1"),
                (lambda: accrue.RNN(8, 4, nonlinearity="gelu"), "nonlinearity='gelu'"),
                (lambda: accrue.TransformerEncoderLayer(8, 2, activation="mish"), "activation='mish'"),
                (lambda: accrue.TransformerEncoder(accrue.Linear(2, 2), 2), "expected a TransformerEncoderLayer"),
                (lambda: accrue.LSTM(8, 4)(x), r"input is \[N, 5, 8\]: expected \[T, N, 8\].*batch_first=True"),
                (lambda: accrue.LSTM(7, 4, batch_first=True)(x), r"expected \[N, T, 7\]"),
                (lambda: accrue.LSTM(8, 4, batch_first=True)(X), "input is ndarray: expected a value"),
                (lambda: accrue.LSTM(8, 4, batch_first=True)(x, x), r"hx is Value: expected \(h, c\)"),
                (lambda: accrue.GRU(8, 4, batch_first=True)(x, x), r"h of hx is \[N, 5, 8\]"),
                (lambda: accrue.MultiheadAttention(8, 2, batch_first=True)(x, x, x, is_causal=True),
                 "is_causal=True without attn_mask"),
                (lambda: accrue.MultiheadAttention(8, 2, batch_first=True)(x, x, x, Y > 0), "key_padding_mask is no"),
                (lambda: accrue.MultiheadAttention(8, 2, batch_first=True)(x, x, x, attn_mask=np.ones((4, 5), bool)),
                 r"attn_mask is \[4, 5\]: expected \[T, S\]"),
                (lambda: accrue.MultiheadAttention(8, 2, batch_first=True)(x, x, x, attn_mask=np.ones((5, 5), int)),
                 "attn_mask has elements int64")):
            with self.assertRaisesRegex(accrue.Error, said):
                make()


if __name__ == "__main__":
    unittest.main()
