"""Preferences have TRL's tokens; DPO follows its definition in PyTorch, beside PEFT's base."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.thorough

CHATML = """{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
SHARE = 0.25
WORDS = "the sky is blue and green but never both of it unless somebody looks away at night".split()


def said(i, n):
    return " ".join(WORDS[(i * 7 + k * (i + 3)) % len(WORDS)] for k in range(n))


def message(role, content):
    return {"role": role, "content": content}


def asked(i):
    return [message("user", said(i, 3 + i % 4)), message("assistant", "yes"),
            message("user", said(i + 1, 2))]


FORMS = {
    "texts": [{"prompt": said(i, 3 + i % 4), "chosen": " " + said(i + 2, 1 + i % 5),
               "rejected": " " + said(i + 5, 2 + i % 3)} for i in range(14)],
    "beginnings": [{"chosen": f"Q: {said(i, 3)} A: x{said(i + 2, 2)}",
                    "rejected": f"Q: {said(i, 3)} A: y{said(i + 4, 3)}"} for i in range(14)],
    "messages": [{"prompt": asked(i), "chosen": [message("assistant", said(i + 2, 1 + i % 5))],
                  "rejected": [message("assistant", said(i + 5, 2))]} for i in range(14)],
    "chats": [{"chosen": [*asked(i), message("assistant", said(i + 2, 1 + i % 5))],
               "rejected": [*asked(i), message("assistant", "no " + said(i + 5, 2))]}
              for i in range(14)],
}


def program(*arguments):
    done = subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    model.train_from_iterator([json.dumps(FORMS)] * 2, tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIALS, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", model.token_to_id("<s>"))])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", chat_template=CHATML)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return tokenizer, folder


def prepare(records, tokenizer, folder):
    """The tokens of each text, and which tokens are learned."""
    (folder / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    program("text", "prepare", "--text", folder / "p.jsonl", "--tokenizer", tokenizer, "--out",
            folder / "corpus", "--hold-out", SHARE)
    tokens = np.fromfile(folder / "corpus" / "tokens.bin", np.uint16).astype(int)
    learned = np.unpackbits(np.fromfile(folder / "corpus" / "learned.bin", np.uint8),
                            bitorder="little")
    ends = np.fromfile(folder / "corpus" / "documents.bin", np.uint64).astype(int)
    texts = [(tokens[b:e].tolist(), learned[b:e].tolist()) for b, e in zip([0, *ends], ends)]
    return list(zip(texts[::2], texts[1::2]))


@pytest.mark.parametrize("form", FORMS)
def test_tokens(form, theirs, tmp_path):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    tokenizer, folder = theirs
    ours = prepare(FORMS[form], folder, tmp_path)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1,
                                      intermediate_size=8, num_attention_heads=1)
    trainer = trl.DPOTrainer(
        *(transformers.LlamaForCausalLM(config) for _ in range(2)), processing_class=tokenizer,
        args=trl.DPOConfig(output_dir=str(tmp_path / "o"), report_to=[], use_cpu=True, bf16=False),
        train_dataset=datasets.Dataset.from_list(FORMS[form]))
    for (chosen, rejected), row in zip(ours, trainer.train_dataset, strict=True):
        for (tokens, learned), name in ((chosen, "chosen_ids"), (rejected, "rejected_ids")):
            assert tokens == row["prompt_ids"] + row[name]
            assert learned == [0] * len(row["prompt_ids"]) + [1] * len(row[name])


def is_held_out(tokens, learned):
    """text/rows.cpp: FNV-1a over the prompt's tokens, mixed."""
    end, hashed = (1 << 64) - 1, 0xcbf29ce484222325
    for token in tokens[:learned.index(1)]:
        hashed = (hashed ^ token) * 0x100000001b3 & end
    hashed = (hashed ^ hashed >> 30) * 0xbf58476d1ce4e5b9 & end
    hashed = (hashed ^ hashed >> 27) * 0x94d049bb133111eb & end
    return (hashed ^ hashed >> 31) / 2**64 < SHARE


def margins(model, pairs, beta, normalized):
    """The margins by their definition, in the model's type."""
    def log_probability(text):
        tokens, learned = (torch.tensor(each) for each in text)
        each = model(tokens[None, :-1]).logits[0].log_softmax(-1)
        each = each.gather(1, tokens[1:, None])[:, 0] * learned[1:]
        return each.sum() / (learned[1:].sum() if normalized else 1)

    def ratio(text):
        with torch.no_grad(), model.disable_adapter():
            reference = log_probability(text)
        return log_probability(text) - reference

    return torch.stack([beta * (ratio(chosen) - ratio(rejected)) for chosen, rejected in pairs])


@pytest.mark.parametrize("kind", ("llama", "gpt2"))
def test_step(kind, theirs, tmp_path):
    """For each split, a step of SGD and the score agree with the definition in float64.

    float32 rounds each of some 1e3 terms by 2^-24, here relative to the largest gradient."""
    tokenizer, folder = theirs
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if kind == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, intermediate_size=48,
            num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2, bos_token_id=0,
            eos_token_id=1, max_position_embeddings=64))
        targets = ["q_proj", "v_proj", "down_proj"]
    else:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, initializer_range=0.2,
            bos_token_id=0, eos_token_id=1, n_positions=128, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        targets = ["c_attn", "c_proj"]
    model.save_pretrained(tmp_path / "base")
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=targets, fan_in_fan_out=kind == "gpt2",
        init_lora_weights=False, task_type="CAUSAL_LM"))
    model.save_pretrained(tmp_path / "adapters")
    base, tuned = tmp_path / "w.safetensors", tmp_path / "tuned.safetensors"
    program("text", "import", "--from", tmp_path / "base", "--out", base)
    program("text", "import", "--from", tmp_path / "adapters", "--base", base, "--out", tuned)
    model = model.double().eval()
    records = FORMS["texts"] + FORMS["messages"]
    pairs = prepare(records, folder, tmp_path)
    split = [is_held_out(*chosen) for chosen, _ in pairs]
    train, test = ([p for p, out in zip(pairs, split) if out == part] for part in (False, True))
    assert len(train) > 8 and len(test) > 2

    for options, beta, normalized in (((), 0.1, False),
                                      (("--dpo-beta", 2, "--dpo-normalized", "yes"), 2, True)):
        model.zero_grad()
        loss = -torch.nn.functional.logsigmoid(margins(model, train, beta, normalized)).mean()
        loss.backward()
        expected = {n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None}
        largest = max(np.abs(g).max() for g in expected.values())
        held_out = margins(model, test, beta, normalized).detach()
        if not options:
            score = program("eval", "--init", tuned, "--data", tmp_path / "corpus", "--context", 128)
            found = re.search(r"accuracy (\S+) % \(\d+ of (\d+)\), margin (\S+), loss (\S+)", score)
            assert int(found[2]) == len(test)
            assert float(found[1]) == pytest.approx(100 * (held_out > 0).double().mean().item(), abs=0.01)
            assert float(found[3]) == pytest.approx(held_out.mean().item(), abs=1e-4)
            assert float(found[4]) == pytest.approx(
                -torch.nn.functional.logsigmoid(held_out).mean().item(), abs=1e-4)
        ways = (("--micro-batch", len(train)), ("--micro-batch", 3),
                ("--micro-batch", 1, "--recompute", "all", "--sequence-piece", 24))
        for how in ways[1:2] if options or kind == "gpt2" else ways:
            out, log = tmp_path / "out.safetensors", tmp_path / "log.jsonl"
            for file in (out, log):
                file.unlink(missing_ok=True)
            rate = 256 / largest  # the largest step that float32 has room for
            program("train", "--init", tuned, "--data", tmp_path / "corpus", "--context", 128,
                    "--effective-batch", len(train), *how, "--steps", 1, "--optimizer", "sgd",
                    "--lr", rate, "--save", out, "--json", log, *options)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
            assert next(s["loss"] for s in steps if "grad_norm" in s) == pytest.approx(
                loss.item(), rel=1e-5)
            weights, before = (safetensors_of(file) for file in (out, tuned))
            seen = 0
            for name, gradient in expected.items():
                own = name.replace("base_model.model.", "").replace(".default", "")
                own = next(n for n in (own, own.replace("transformer.", "")) if n in weights)
                found = (before[own].astype(np.float64) - weights[own]) / rate
                assert np.abs(found - gradient).max() < 1e3 * 2**-24 * largest
                seen += 1
            assert seen == sum("lora" in name for name in weights)


def safetensors_of(file):
    from safetensors.numpy import load_file
    return load_file(file)
