"""The golden file pairs.safetensors: texts that are compared with all others of a window.

The networks of golden_text.py, without heads, take ten steps of Adam on sentence-transformers'
MultipleNegativesRankingLoss, with 12 anchors as one batch in float64. Each anchor is to be nearer
to its own positive than to the other anchors' positives; for llama each sample also has a negative.
Here each text is a separate row, padded at its end, and its embedding is the mean over its tokens.
The file holds, with MODEL gpt2 or llama,

    tokens.MODEL, positions.MODEL  I32 [12, 12]: the texts of a sample side by side, and padding;
                                   positions count within each text
    lengths.MODEL                  I32 [12, 2 or 3]: the number of tokens of each text
    init.MODEL.NAME, grad.MODEL.NAME, final.MODEL.NAME, loss.MODEL, grad_norm.MODEL
                                   as in text.safetensors
"""

import random

import torch
from torch.nn import functional

import golden_files
import golden_text

SAMPLES, STEPS, SCALE, TOLERANCE = 12, 10, 20, 1e-10
TEXTS = {"gpt2": 2, "llama": 3}


def texts_of(name):
    """Lists of tokens, [12][2 or 3]."""
    generator = random.Random(f"pairs of {name}")
    most = golden_text.T // TEXTS[name]
    return [[[generator.randrange(golden_text.V) for _ in range(generator.randint(1, most))]
             for _ in range(TEXTS[name])] for _ in range(SAMPLES)]


def rows(texts):
    tokens, positions = (torch.zeros(SAMPLES, golden_text.T, dtype=torch.int32) for _ in range(2))
    lengths = torch.tensor([[len(text) for text in sample] for sample in texts], dtype=torch.int32)
    for n, sample in enumerate(texts):
        side_by_side = [(token, place) for text in sample for place, token in enumerate(text)]
        for t, (token, place) in enumerate(side_by_side):
            tokens[n, t], positions[n, t] = token, place
    return tokens, positions, lengths


def embeddings(model, texts):
    """[n, E], padding left out by the mask."""
    longest = max(map(len, texts))
    tokens = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    states = model.base_model(input_ids=tokens, attention_mask=mask).last_hidden_state
    weights = mask[:, :, None].double()
    return functional.normalize((states * weights).sum(1) / weights.sum(1), dim=1)


def ranking_loss(model, texts):
    columns = [embeddings(model, list(column)) for column in zip(*texts)]
    similarity = SCALE * columns[0] @ torch.cat(columns[1:]).T
    return functional.cross_entropy(similarity, torch.arange(len(similarity)))


def make():
    tensors = {}
    for name, model in golden_text.models():
        golden_text.draw(name, model)
        if model.lm_head.weight is not model.base_model.get_input_embeddings().weight:
            model.lm_head.requires_grad_(False)
        texts = texts_of(name)
        for field, values in zip(("tokens", "positions", "lengths"), rows(texts)):
            tensors[f"{field}.{name}"] = values
        # The gradient of a key's bias is rounding alone; a larger eps keeps Adam from enlarging it.
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4)
        tensors.update(golden_files.initial(model, f"init.{name}."))
        tensors.update(golden_files.record(name, model, optimizer,
                                           lambda *texts, of=model: ranking_loss(of, texts),
                                           [texts], STEPS))
    return tensors
