"""The golden file text.safetensors: language models that learn rows of tokens.

transformers' GPT2LMHeadModel and LlamaForCausalLM, two layers each, take 20 steps of AdamW on one
window of 8 rows of 12 tokens, as one batch, in float64. Matrices decay; biases and the weights of
norms do not. A row has a whole document, or several that do not see each other, and padding. Some
documents begin with a prompt that is read and not learned, and one row has nothing to learn. The
loss is the mean over the labels that count. transformers computes Llama's norms and angles in
float32; here it does so in float64. The file holds

    tokens, labels, positions  I32 [8, 12]; a label that does not count is -1, positions count
                               within each document
    init.MODEL.NAME            F32  the initial weights, NAME as in the state_dict, MODEL gpt2, llama
    grad.MODEL.NAME            F64  the first window's gradient
    final.MODEL.NAME           F64  the weights after the last step
    loss.MODEL, grad_norm.MODEL  F64  [20], for each window
"""

import functools
import random

import torch
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

import golden_files

V, T, STEPS, TOLERANCE = 23, 12, 20, 1e-10
# For each row the documents: (length, tokens of the prompt at its beginning). The rest of a row is
# padding.
ROWS = (((12, 0),), ((5, 0), (7, 2)), ((1, 0), (3, 0), (6, 5)), ((4, 0),), ((12, 12),),
        ((2, 1), (2, 0), (2, 0), (6, 0)), ((9, 3),), ((11, 0), (1, 0)))


def rows():
    generator = random.Random("text")
    tokens, labels, positions = (torch.zeros(len(ROWS), T, dtype=torch.int32) for _ in range(3))
    labels.fill_(-1)
    for n, documents in enumerate(ROWS):
        t = 0
        for length, prompt in documents:
            for place in range(length):
                tokens[n, t] = generator.randrange(V)
                positions[n, t] = place
                if place > prompt:
                    labels[n, t - 1] = tokens[n, t]
                t += 1
    return tokens, labels, positions


def sees(positions):
    """Which tokens each token sees, [N, 1, T, T]."""
    at = torch.arange(T)
    begin = at - positions
    return ((at[None, None, :] <= at[None, :, None]) &
            (at[None, None, :] >= begin[:, :, None]))[:, None]


class Norm(modeling_llama.LlamaRMSNorm):
    def forward(self, hidden_states):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


class Rotation(modeling_llama.LlamaRotaryEmbedding):
    def forward(self, x, position_ids):
        size = self.config.hidden_size // self.config.num_attention_heads
        frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = position_ids[..., None].double() * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


def exact(model):
    """Makes this model alone compute norms and angles in the type of its weights."""
    for module in model.modules():
        for kind in (Norm, Rotation):
            if type(module) is kind.__base__:
                module.__class__ = kind
    return model


def models(vocabulary=V):
    sdpa = {"attn_implementation": "sdpa", "use_cache": False}
    yield "gpt2", GPT2LMHeadModel(GPT2Config(
        vocab_size=vocabulary, n_positions=T, n_embd=12, n_layer=2, n_head=3, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, **sdpa))
    yield "llama", exact(LlamaForCausalLM(LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=T, rms_norm_eps=1e-5,
        rope_theta=10000.0, **sdpa)))


def optimizer_of(model, eps=1e-8):
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                              {"params": rest, "weight_decay": 0.0}], lr=0.01, betas=(0.9, 0.95),
                             eps=eps)


def draw(name, model):
    generator = random.Random(name)
    golden_files.fill(model.double(), lambda p: (
        golden_files.uniform(generator, 0.3, *p.shape) + (p.dim() == 1)).float())


def loss_of(model, tokens, labels, positions):
    logits = model(input_ids=tokens.long(), position_ids=positions.long(),
                   attention_mask=sees(positions)).logits
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten().long(), ignore_index=-1)


def learn(name, model, optimizer):
    """The tensors that a file holds for this model."""
    return {**golden_files.initial(model, f"init.{name}."),
            **golden_files.record(name, model, optimizer, functools.partial(loss_of, model),
                                  [rows()], STEPS)}


def make():
    tensors = dict(zip(("tokens", "labels", "positions"), rows()))
    for name, model in models():
        draw(name, model)
        tensors.update(learn(name, model, optimizer_of(model)))
    return tensors
