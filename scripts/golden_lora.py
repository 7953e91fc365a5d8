"""The golden file lora.safetensors: adapters that learn rows of tokens.

PEFT's LoRA on the language models, weights and rows of golden_text.py, whose weights stay: 20 steps
of AdamW on one window, as one batch, in float64. All of a GPT-2 block's linear layers but one have
adapters, and of a Llama block, with rank-stabilized LoRA, two of each kind. B does not begin with
0, so that every gradient is one. The file holds, NAME as PEFT saves it without its first words,
MODEL gpt2.lora and llama.lora,

    init.MODEL.NAME            F32  the initial adapters
    grad.MODEL.NAME            F64  the first window's gradient
    final.MODEL.NAME           F64  the adapters after the last step
    loss.MODEL, grad_norm.MODEL  F64  [20], of each window
"""

import random

import peft
import torch
from torch.nn import functional

import golden_files
import golden_text

OPTIONS = {"gpt2": {"lora_alpha": 12, "target_modules": ["c_attn", "mlp.c_proj", "c_fc"],
                    "fan_in_fan_out": True},
           "llama": {"lora_alpha": 6, "use_rslora": True,
                     "target_modules": ["q_proj", "v_proj", "gate_proj", "down_proj"]}}


def named(parameter):
    return parameter.removeprefix("base_model.model.").replace(".default.", ".")


def adapted(name, model):
    """The model of golden_text.py with adapters."""
    golden_text.draw(name, model.double())
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_dropout=0, bias="none", task_type="CAUSAL_LM", **OPTIONS[name])).double()
    generator = random.Random(name + ".lora")
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(golden_files.uniform(generator, 0.3, *p.shape))
    return model


def make():
    tokens, labels, positions = golden_text.rows()
    tensors = {}
    for base, model in golden_text.models():
        name, model = base + ".lora", adapted(base, model)
        trained = [(key, p) for key, p in model.named_parameters() if p.requires_grad]
        tensors.update({f"init.{name}.{named(key)}": p.detach().float() for key, p in trained})

        def loss_of(tokens, labels, positions, model=model):
            logits = model(input_ids=tokens.long(), position_ids=positions.long(),
                           attention_mask=golden_text.sees(positions)).logits
            return functional.cross_entropy(logits.flatten(0, 1), labels.flatten().long(),
                                            ignore_index=-1)

        optimizer = torch.optim.AdamW([p for _, p in trained], lr=0.01, betas=(0.9, 0.95),
                                      weight_decay=0.1)
        gradient, losses, norms = golden_files.train(
            model, optimizer, loss_of, [(tokens, labels, positions)], golden_text.STEPS)
        tensors.update({f"grad.{name}.{named(key)}": gradient[key] for key, _ in trained})
        tensors.update({f"final.{name}.{named(key)}": p for key, p in trained})
        tensors.update({f"loss.{name}": losses, f"grad_norm.{name}": norms})
    return tensors


def write():
    golden_files.write("lora", make(), peft=peft.__version__)


def check():
    return golden_files.agrees("lora", make(), 1e-10)
