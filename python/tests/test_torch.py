"""Tests of a torch.nn.Module in place of a model (docs/pytorch.md)."""

import pickle
import tempfile
import unittest

import numpy as np

import accrue

try:
    import torch
except ImportError:
    torch = None
else:
    from torch import nn


def samples(n=12, shape=(3, 8, 8), classes=4, seed=0):
    random = np.random.default_rng(seed)
    return (random.normal(size=(n, *shape)).astype(np.float32), random.integers(0, classes, n).astype(np.int32))


@unittest.skipUnless(torch, "needs torch")
class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        class Net(nn.Module):
            """Blocks with a batch norm, a dropout, tied weights and a buffer."""

            def __init__(self):
                super().__init__()
                self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
                self.drop = nn.Dropout(0.25)
                self.a = nn.Linear(4, 4, bias=False)
                self.b = nn.Linear(4, 4, bias=False)
                self.b.weight = self.a.weight
                self.unused = nn.Linear(2, 2)
                self.register_buffer("shift", torch.linspace(0, 1, 4))
                self.head = nn.Linear(4, 4)

            def forward(self, x):
                y = self.stem(x)
                y = self.drop(y).mean((2, 3)) + self.shift
                return self.head(torch.tanh(self.b(self.a(y))))

        torch.manual_seed(0)
        cls.net = Net()
        cls.x, cls.y = samples()
        cls.traced = accrue.from_torch(cls.net, cls.x)

    @classmethod
    def tearDownClass(cls):
        del cls.traced, cls.net

    def train(self, model=None, **options):
        return accrue.train(model or self.traced, (self.x, self.y), effective_batch=6, threads=1, **options)

    def test_a_line_trains_and_the_state_loads(self):
        before = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}
        result = self.train(self.net, micro_batch=3)
        self.assertEqual(result.memory["this run"], result.memory["predicted"])
        state = result.state_dict()
        self.assertEqual(list(state), list(before))
        torch.testing.assert_close(state["a.weight"], state["b.weight"])
        torch.testing.assert_close(state["unused.weight"], before["unused.weight"])
        self.assertEqual(int(state["stem.1.num_batches_tracked"]), result.steps)
        self.assertFalse(torch.equal(state["stem.1.running_mean"], before["stem.1.running_mean"]))
        other = type(self.net)()
        other.load_state_dict(state, strict=True)
        other.eval()
        with torch.no_grad():
            torch.testing.assert_close(torch.tensor(accrue.predict(result.weights, self.x, self.traced)),
                                       other(torch.tensor(self.x)), rtol=1e-5, atol=1e-5)
        # The module itself is as it was.
        for name, tensor in self.net.state_dict().items():
            torch.testing.assert_close(tensor, before[name])
        self.assertTrue(self.net.training)

    def test_a_result_is_pickled_with_its_state(self):
        module = nn.Linear(4, 3)  # a class that pickle can import
        x, y = samples(shape=(4,), classes=3)
        result = accrue.train(module, (x, y), epochs=1, micro_batch=3, effective_batch=6)
        state, again = result.state_dict(), pickle.loads(pickle.dumps(result)).state_dict()
        self.assertEqual(list(again), list(state))
        self.assertTrue(all(torch.equal(again[name], state[name]) for name in state))

    def test_dropout_does_not_depend_on_the_split(self):
        options = dict(batch_norm="window", batch_norm_by="keep", precision="fp64")
        whole, split = (self.train(micro_batch=m, **options).weights for m in (6, 4))
        for name, array in whole.items():
            np.testing.assert_allclose(split[name], array, rtol=1e-9, atol=1e-12, err_msg=name)

    def test_dropout_is_that_of_layers(self):
        net = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(192, 4))
        ours = accrue.Sequential(accrue.Flatten(), accrue.Dropout(0.3), accrue.Linear(192, 4))
        a = self.train(net, micro_batch=6).weights
        b = self.train(ours, micro_batch=6, init={f"1.{n}": net[2].state_dict()[n] for n in ("weight", "bias")}).weights
        np.testing.assert_array_equal(a["2.weight"], b["1.weight"])

    def test_noise_is_drawn_by_the_sample(self):
        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.channels = nn.Conv2d(3, 8, 3), nn.Dropout2d(0.3)
                self.layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.2)
                self.head = nn.Linear(8, 4)

            def forward(self, x):
                y = self.channels(self.conv(x))
                path = (0.8 + torch.rand(y.shape[0], 1, 1, 1)).floor()
                y = y.div(0.8) * path
                shared = torch.empty_like(y).bernoulli_(0.5)
                y = (y * shared + y.tanh() * shared).flatten(2).permute(2, 0, 1)
                return self.head(self.layer(y).mean(0))

        traced = accrue.from_torch(Noisy(), self.x)
        text = repr(traced)
        for call in ("dropout", "stochastic_depth"):
            self.assertIn(call, text)
        whole, split = (self.train(traced, micro_batch=m, precision="fp64") for m in (6, 1))
        for name, array in whole.weights.items():
            np.testing.assert_allclose(split.weights[name], array, rtol=1e-9, atol=1e-12, err_msg=name)

    def test_noise_that_calls_share_is_drawn_once(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(6))

            def forward(self, x):
                x = x * self.w
                noise = torch.empty_like(x).bernoulli_(0.5)
                path = (0.25 + torch.rand(x.shape[0], 1)).floor()
                return x * noise / 0.5 - x * (noise / 0.5) + (x * path - x * (path * path))

        x = samples(shape=(6,))[0]
        losses = accrue.train(Twice(), (x, np.zeros_like(x)), loss="mse", effective_batch=6, micro_batch=4,
                              threads=1).losses
        self.assertLess(max(losses), 1e-12)

    def test_trainer_plan_and_scores(self):
        trainer = accrue.Trainer(self.traced, (self.x, self.y), effective_batch=6, micro_batch=2, threads=1)
        result = trainer.run()
        torch.testing.assert_close(trainer.state_dict(), result.state_dict())
        self.assertEqual(trainer.predict(self.x).shape, (12, 4))
        plan = accrue.plan(self.traced, (self.x, self.y), effective_batch=6, memory="64MiB")
        self.assertEqual(plan["recommended"]["micro_batch"], 6)
        self.assertIn("accuracy", accrue.evaluate(self.traced, data=(self.x, self.y)))

    def test_frozen_parameters_stay(self):
        self.net.stem.requires_grad_(False)
        try:
            result = self.train(accrue.from_torch(self.net, self.x), micro_batch=6)
            state = result.state_dict()
            for name in ("stem.0.weight", "stem.1.weight"):
                torch.testing.assert_close(state[name], self.net.state_dict()[name])
            # PyTorch's batch norm takes the batch's statistics also then.
            self.assertFalse(torch.equal(state["stem.1.running_mean"], self.net.stem[1].running_mean))
            self.assertFalse(torch.equal(state["head.weight"], self.net.head.weight))
        finally:
            self.net.stem.requires_grad_(True)

    def test_eval_mode_is_kept_only_if_asked(self):
        self.net.eval()
        try:
            text = repr(accrue.from_torch(self.net, self.x))
            kept = accrue.from_torch(self.net, self.x, training=False)
            self.assertIn("training=False", repr(kept))
            state = self.train(kept, micro_batch=6).state_dict()
            self.assertEqual(int(state["stem.1.num_batches_tracked"]), int(self.net.stem[1].num_batches_tracked))
            self.assertNotIn("training=False", text)
            self.assertFalse(self.net.training)
        finally:
            self.net.train()

    def test_a_padding_row_is_read_as_a_tied_head_learns_it(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rows, self.head = nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 5, bias=False)
                self.head.weight = self.rows.weight

            def forward(self, tokens):
                return self.head(torch.tanh(self.rows(tokens)).mean(1))

        torch.manual_seed(3)
        net = Net().double()
        random = np.random.default_rng(3)
        tokens, y = random.integers(0, 3, (12, 3)), random.integers(0, 5, 12)
        state = accrue.train(net, (tokens, y), micro_batch=4, effective_batch=6, threads=1, optimizer="sgd", momentum=0,
                             lr=1, weight_decay=0, schedule="constant", no_shuffle=True, epochs=1).state_dict()
        optimizer = torch.optim.SGD(net.parameters(), lr=1)
        for i in (0, 6):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(torch.tensor(tokens[i:i + 6])), torch.tensor(y[i:i + 6])).backward()
            optimizer.step()
        torch.testing.assert_close(state["rows.weight"], net.rows.weight.detach(), rtol=1e-9, atol=1e-12)

    def test_equal_maxima_share_their_gradient(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(4, dtype=torch.float64))

            def forward(self, x):
                return (x * self.w).amax(1, keepdim=True) - (x * self.w).amin(1, keepdim=True) + self.w

        net = Net()
        x, y = np.array([[1.0, 2, 2, 1], [3, 3, 3, 0]]), np.zeros((2, 4))
        nn.functional.mse_loss(net(torch.tensor(x)), torch.tensor(y)).backward()
        state = accrue.train(net, (x, y), loss="mse", micro_batch=1, effective_batch=2, threads=1, optimizer="sgd",
                             momentum=0, lr=1, weight_decay=0, schedule="constant", epochs=1).state_dict()
        torch.testing.assert_close(net.w.detach() - state["w"], net.w.grad)

    def test_labels_at_every_place_are_a_mean_over_all_that_count(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rows, self.head = nn.Embedding(7, 6), nn.Linear(6, 7)

            def forward(self, tokens):
                return self.head(torch.tanh(self.rows(tokens).cumsum(1)))

        torch.manual_seed(4)
        net = Net().double()
        random = np.random.default_rng(4)
        tokens = random.integers(0, 7, (6, 5))
        labels = np.where(np.arange(5) < [[5], [1], [0], [3], [2], [5]], random.integers(0, 6, (6, 5)), -100)
        loss = nn.functional.cross_entropy(net(torch.tensor(tokens)).view(-1, 7), torch.tensor(labels).view(-1))
        loss.backward()
        options = dict(effective_batch=6, threads=1, optimizer="sgd", momentum=0, lr=1, weight_decay=0,
                       schedule="constant", epochs=1)
        for micro_batch in (6, 4, 1):
            result = accrue.train(net, (tokens, labels), micro_batch=micro_batch, **options)
            self.assertAlmostEqual(result.losses[0], float(loss.detach()), places=12)
            for name, weight in net.named_parameters():
                torch.testing.assert_close(weight.detach() - result.state_dict()[name], weight.grad, rtol=1e-9,
                                           atol=1e-12)
        score = accrue.evaluate(net, data=(tokens, labels))
        right = (accrue.predict(net, tokens).argmax(-1) == labels)[labels >= 0]
        self.assertAlmostEqual(score["loss"], float(loss.detach()), places=6)
        self.assertAlmostEqual(score["output.accuracy"], 100 * right.mean(), places=4)
        # With weights of the classes, as PyTorch has them.
        weights = [1, 2, 0.5, 1, 3, 1, 0.25]
        net.zero_grad()
        nn.functional.cross_entropy(net(torch.tensor(tokens)).transpose(1, 2), torch.tensor(labels),
                                    weight=torch.tensor(weights).double()).backward()
        result = accrue.train(net, (tokens, labels), loss=accrue.loss("cross_entropy", class_weights=weights),
                              micro_batch=4, **options)
        torch.testing.assert_close(net.head.bias.detach() - result.state_dict()["head.bias"], net.head.bias.grad)
        with self.assertRaisesRegex(accrue.Error, r"answers with \[\d, 7, 5\].*\[\d, 5, C\], which transpose"):
            net.forward = lambda tokens, own=net.forward: own(tokens).transpose(1, 2)
            accrue.train(net, (tokens, labels), micro_batch=3, **options)

    def test_masks_have_pixels_that_count_nowhere(self):
        net = nn.Conv2d(3, 4, 1).double()
        x = np.random.default_rng(5).normal(size=(4, 3, 5, 5))
        y = np.random.default_rng(6).integers(-2, 4, (4, 5, 5))
        y[y < 0] = -100
        nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y)).backward()
        state = accrue.train(net, (x, y), micro_batch=3, effective_batch=4, threads=1, optimizer="sgd", momentum=0,
                             lr=1, weight_decay=0, schedule="constant", epochs=1).state_dict()
        torch.testing.assert_close(net.weight.detach() - state["weight"], net.weight.grad)

    def test_labels_of_transformers_are_compared_as_there(self):
        class Causal(nn.Module):
            """As transformers' GPT2LMHeadModel: its loss_function() shifts the labels."""
            loss_type = None

            def __init__(self):
                super().__init__()
                self.rows, self.head = nn.Embedding(7, 6), nn.Linear(6, 7)

            def forward(self, input_ids, labels=None):
                logits = self.head(self.rows(input_ids))
                return {"loss": self.loss_function(logits, labels)} if labels is not None else {"logits": logits}

            def loss_function(self, logits, labels):
                return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 7), labels[:, 1:].reshape(-1))

        torch.manual_seed(5)
        net = Causal().double()
        ids = np.random.default_rng(5).integers(0, 7, (6, 5))
        net(torch.tensor(ids), torch.tensor(ids))["loss"].backward()
        options = dict(micro_batch=4, effective_batch=6, threads=1, optimizer="sgd", momentum=0, lr=1, weight_decay=0,
                       schedule="constant", epochs=1)
        state = accrue.train(net, {"input_ids": ids, "labels": ids}, **options).state_dict()
        torch.testing.assert_close(net.head.weight.detach() - state["head.weight"], net.head.weight.grad)
        net.loss_type = "ForQuestionAnswering"
        with self.assertRaisesRegex(accrue.Error, "the loss ForQuestionAnswering of Causal"):
            accrue.train(net, {"input_ids": ids, "labels": ids}, **options)

    def test_batch_norms_of_the_window_need_no_weights(self):
        torch.manual_seed(6)
        net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, affine=False), nn.Tanh(), nn.Linear(5, 4)).double()
        x, y = samples(shape=(6,))
        state = {name: each.clone() for name, each in net.state_dict().items()}
        nn.functional.cross_entropy(net(torch.tensor(x[:6]).double()), torch.tensor(y[:6]).long()).backward()
        net_after = {name: each.clone() for name, each in net.state_dict().items()}
        net.load_state_dict(state)
        after = accrue.train(net, (x[:6], y[:6]), batch_norm="window", micro_batch=4, effective_batch=6, threads=1,
                             optimizer="sgd", momentum=0, lr=1, weight_decay=0, epochs=1,
                             schedule="constant").state_dict()
        torch.testing.assert_close(state["0.weight"] - after["0.weight"], net[0].weight.grad)
        torch.testing.assert_close(after["1.running_var"], net_after["1.running_var"])

    def test_batch_norms_that_torch_export_cannot_list_are_named(self):
        x, y = samples(shape=(6,))
        norm = nn.BatchNorm1d(6)
        for net, words in ((nn.Sequential(norm, nn.Tanh(), norm, nn.Linear(6, 4)), "batch norm 2 is 0 as well"),
                           (nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 4)),
                            "batch norm 0 has momentum=None")):
            with self.assertRaisesRegex(accrue.Error, words):
                accrue.train(net, (x, y), effective_batch=6)

    def test_a_stopped_gradient_is_none(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w, self.only = nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))

            def forward(self, x):
                return x * self.w * self.w.detach() + self.only.detach()

        x, y = np.ones((6, 6), np.float32), np.zeros((6, 6), np.float32)
        for options in ({}, {"recompute": "all"}):
            state = accrue.train(Net(), (x, y), loss="mse", effective_batch=6, micro_batch=4, threads=1, epochs=1,
                                 optimizer="sgd", momentum=0, lr=1, weight_decay=0, schedule="constant",
                                 **options).state_dict()
            torch.testing.assert_close(state["w"], torch.full((6,), 1 - 4 / 6))
            torch.testing.assert_close(state["only"], torch.ones(6))

    def test_a_loss_of_one_output_needs_no_name(self):
        net = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 4))
        tokens = np.zeros((12, 3), np.int32)
        loss = accrue.loss("cross_entropy", class_weights=[1, 2, 3, 4])
        unnamed, named = (accrue.train(net, (tokens, self.y), loss=each, effective_batch=6, micro_batch=6, threads=1)
                          for each in (loss, {"output": loss}))
        np.testing.assert_array_equal(unnamed.weights["2.weight"], named.weights["2.weight"])

    def test_tokens_that_are_compared_and_found(self):
        class Net(nn.Module):
            """The answer at the last token that is no padding, as transformers finds it."""

            def __init__(self):
                super().__init__()
                self.rows, self.head = nn.Embedding(500, 4), nn.Linear(4, 3)

            def forward(self, tokens):
                there = (tokens != 257).int()
                last = (torch.arange(5) * there).argmax(-1)
                rows = (self.rows(tokens.view(-1, 5)) * (tokens < 400).unsqueeze(-1)).cumsum(1)
                return self.head(rows)[torch.arange(tokens.shape[0]), last]

        torch.manual_seed(7)
        net = Net()
        tokens = np.random.default_rng(7).integers(254, 500, (6, 5))
        tokens[np.arange(5) > [[4], [1], [0], [3], [2], [4]]] = 257
        y = np.array([0, 1, 2, 0, 1, 2])
        nn.functional.cross_entropy(net(torch.tensor(tokens)), torch.tensor(y)).backward()
        state = accrue.train(net, (tokens, y), micro_batch=4, effective_batch=6, threads=1, optimizer="sgd", momentum=0,
                             lr=1, weight_decay=0, schedule="constant", epochs=1).state_dict()
        torch.testing.assert_close(net.rows.weight.detach() - state["rows.weight"], net.rows.weight.grad)

    def test_whole_numbers_that_are_compared_are_0_or_1(self):
        class Net(nn.Module):
            def __init__(self, compared):
                super().__init__()
                self.rows, self.compared = nn.Embedding(5, 4), compared

            def forward(self, tokens):
                rows = self.rows(tokens)
                return (rows * (self.compared(tokens, rows) != 0).unsqueeze(-1)).sum(1)

        tokens = np.arange(36).reshape(12, 3) % 5
        net = Net(lambda tokens, rows: tokens.float())
        with self.assertRaisesRegex(accrue.Error, "tokens has 4.*expected 0 or 1"):
            accrue.train(net, (tokens, self.y), effective_batch=6)
        self.assertEqual(accrue.predict(net, tokens % 2).shape, (12, 4))
        with self.assertRaisesRegex(accrue.Error, "aten.ne.Scalar.*expected them as indices alone"):
            accrue.from_torch(Net(lambda tokens, rows: rows.argmax(-1)), tokens)
        with self.assertRaisesRegex(accrue.Error, "aten.ne.Scalar.*expected them as indices alone"):
            accrue.from_torch(Net(lambda tokens, rows: (tokens == 3).int().argmax(-1, keepdim=True)), tokens)

    def test_pools_are_those_of_pytorch(self):
        torch.manual_seed(2)
        net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(3, 2, 1, ceil_mode=True),
                            nn.MaxPool2d(2, 1, dilation=2), nn.AvgPool2d(2, 1), nn.Flatten(2),
                            nn.MaxPool1d(2, 1), nn.Flatten(), nn.LazyLinear(4))
        net.double()(torch.tensor(self.x, dtype=torch.float64))
        loss = nn.functional.cross_entropy(net(torch.tensor(self.x[:6], dtype=torch.float64)),
                                           torch.tensor(self.y[:6], dtype=torch.int64))
        loss.backward()
        result = accrue.train(net, (self.x[:6], self.y[:6]), micro_batch=4, effective_batch=6, threads=1,
                              optimizer="sgd", momentum=0, lr=1, weight_decay=0, schedule="constant")
        for name, weight in net.named_parameters():
            torch.testing.assert_close(weight - result.state_dict()[name], weight.grad, rtol=1e-9, atol=1e-12)

    def test_double_modules_compute_in_float64(self):
        net = nn.Sequential(nn.Flatten(), nn.Linear(192, 4)).double()
        result = self.train(net, micro_batch=6)
        self.assertEqual(result.weights["1.weight"].dtype, np.float64)
        self.assertEqual(result.state_dict()["1.weight"].dtype, torch.float64)

    def test_what_is_refused_is_named(self):
        class Of(nn.Module):
            def __init__(self, call):
                super().__init__()
                self.w, self.call = nn.Parameter(torch.ones(3, 1, 1)), call

            def forward(self, x):
                return self.call(x * self.w).flatten(1)

        def refused(call, *words):
            with self.assertRaises(accrue.Error) as raised:
                accrue.from_torch(Of(call), self.x)
            for word in words:
                self.assertIn(word, str(raised.exception))

        refused(lambda x: x.erfinv(), "aten.erfinv.default", "test_torch.py", "no such call")
        refused(lambda x: x - x.mean(0), "aten.mean.dim", "across samples")
        refused(lambda x: x.softmax(0), "softmax", "across samples")
        refused(lambda x: x.roll(1, 0), "aten.roll", "across samples")
        refused(lambda x: x.transpose(0, 1).reshape(-1, 3, 64), "mixes samples")
        refused(lambda x: x[:, torch.arange(2).expand(x.shape[0], 2)], "aten.index.Tensor", "constant whole numbers")
        refused(lambda x: (-2.0) ** x, "aten.pow", "test_torch.py")
        accrue.from_torch(Of(lambda x: torch.clamp(x, torch.zeros(8), torch.ones(8))), self.x)
        refused(lambda x: x * torch.rand(3, 8, 8), "aten.")
        with self.assertRaisesRegex(accrue.Error, "expected float32 or float64"):
            accrue.from_torch(nn.Linear(3, 3).half(), self.x)
        with self.assertRaisesRegex(accrue.Error, "DataParallel.*expected that module itself, model.module"):
            accrue.from_torch(nn.DataParallel(nn.Linear(3, 3)), self.x)
        with self.assertRaisesRegex(accrue.Error, "has no values"):
            accrue.from_torch(nn.Linear(8, 3, device="meta"), self.x)
        with self.assertRaisesRegex(accrue.Error, "from_torch"):
            accrue.train(self.net, "digits")
        with self.assertRaisesRegex(accrue.Error, "no torch.nn.Module"):
            accrue.train("mlp", "digits", epochs=1, micro_batch=64).state_dict()

    def test_gradients_that_are_not_the_calls_own_are_refused(self):
        class Reversed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, dy):
                return -dy

        class Net(nn.Module):
            def __init__(self, call=lambda net, x: x):
                super().__init__()
                self.a, self.b, self.call = nn.Linear(192, 4), nn.Linear(4, 4), call

            def forward(self, x):
                return self.b(self.call(self, self.a(x.flatten(1))))

        def stopped(net, x):
            with torch.no_grad():
                return x + net.b(x).sigmoid()

        def hooked(net, x):
            x.register_hook(lambda dy: 2 * dy)
            return x

        reverse = Reversed.apply
        for call, words in ((lambda net, x: reverse(x), "Function .*Reversed has a backward"),
                            (stopped, "no_grad.*test_torch.py.*stops the gradient of a_"), (hooked, "register_hook")):
            with self.assertRaisesRegex(accrue.Error, words):
                accrue.from_torch(Net(call), self.x)
        net = Net()
        net.a.weight.register_hook(lambda dy: 2 * dy)
        with self.assertRaisesRegex(accrue.Error, "the parameter a.weight has hooks"):
            accrue.from_torch(net, self.x)
        net = Net()
        net.b.register_full_backward_hook(lambda *_: None)
        with self.assertRaisesRegex(accrue.Error, "b has backward hooks"):
            accrue.from_torch(net, self.x)
        net = Net(lambda net, x: torch.utils.checkpoint.checkpoint(net.b, x, use_reentrant=True))
        accrue.from_torch(net, self.x)
        net = Net(lambda net, x: x)
        net.forward = lambda x: net.b(stopped(net, net.a(x.flatten(1))))
        net.a.requires_grad_(False)
        with self.assertRaisesRegex(accrue.Error, "gradient of b_"):
            accrue.from_torch(net, self.x)
        # The original is back: PyTorch's gradients are as they were.
        x = torch.ones(1, requires_grad=True)
        reverse(x).backward()
        self.assertEqual(float(x.grad), -1)

    def test_saved_weights_make_a_state(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.train(micro_batch=6)
            result.weights.save(f"{folder}/w.safetensors")
            again = accrue.Weights.load(f"{folder}/w.safetensors")
            self.assertEqual(set(again), set(result.weights))
            torch.testing.assert_close(self.traced.state_dict(again, result.steps), result.state_dict())
            with self.assertRaisesRegex(accrue.Error, r"have a.weight \[2, 4\]: expected .* a.weight \[4, 4\]"):
                self.traced.state_dict({**again, "a.weight": np.zeros((2, 4))})
            with self.assertRaisesRegex(accrue.Error, "have no "):
                self.traced.state_dict({"nope": np.zeros(1)})


if __name__ == "__main__":
    unittest.main()
