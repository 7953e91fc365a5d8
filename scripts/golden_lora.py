"""The golden file lora.safetensors: adapters that learn rows of tokens.

PEFT's LoRA on the language models, weights and rows of golden_text.py, whose weights are frozen: 20
steps of AdamW on one window, as one batch, in float64. In a GPT-2 block all linear layers except
one have adapters; in a Llama block, with rank-stabilized LoRA, two of each kind have them. B does
not begin with 0, so no gradient is 0. The file holds, with NAME as PEFT saves it without its first
words, and MODEL gpt2.lora and llama.lora,

    init.MODEL.NAME            F32  the initial adapters
    grad.MODEL.NAME            F64  the first window's gradient
    final.MODEL.NAME           F64  the adapters after the last step
    loss.MODEL, grad_norm.MODEL  F64  [20], for each window
"""

import random

import peft
import torch

import golden_files
import golden_text

TOLERANCE = golden_text.TOLERANCE
OPTIONS = {"gpt2": {"lora_alpha": 12, "target_modules": ["c_attn", "mlp.c_proj", "c_fc"],
                    "fan_in_fan_out": True},
           "llama": {"lora_alpha": 6, "use_rslora": True,
                     "target_modules": ["q_proj", "v_proj", "gate_proj", "down_proj"]}}


def adapted(name, model):
    """The model of golden_text.py with adapters."""
    golden_text.draw(name, model)
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_dropout=0, bias="none", task_type="CAUSAL_LM", **OPTIONS[name])).double()
    generator = random.Random(name + ".lora")
    golden_files.fill(model, lambda p: golden_files.uniform(generator, 0.3, *p.shape))
    return model


def make():
    tensors = {}
    for name, model in golden_text.models():
        model = adapted(name, model)
        optimizer = torch.optim.AdamW(golden_files.trained_of(model).values(), lr=0.01,
                                      betas=(0.9, 0.95), weight_decay=0.1)
        tensors.update(golden_text.learn(name + ".lora", model, optimizer))
    return {key.replace("base_model.model.", "").replace(".default.", "."): value
            for key, value in tensors.items()}
