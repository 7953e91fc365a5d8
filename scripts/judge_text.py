#!/usr/bin/env python3
"""A table: models x what is made of them, beside transformers, tokenizers, PEFT and gguf.

    python3 scripts/judge_text.py llama.cpp/models [FILE.gguf ...] > table.md

The first folder is that of llama.cpp's source: the vocabularies ggml-vocab-*.gguf and the templates
of chats are those that GPT-2, Llama, Qwen2.5 and Mistral have. Their models are drawn at random, with
every key of the config.json and generation_config.json that lie on the hub, and smaller: heads are
as many, of 8 channels, in 2 layers. Each FILE.gguf is a real Llama or Qwen2, tokenizer included. The
module accrue is the one on the PYTHONPATH. A cell says "equal", with the largest difference by the
largest number, "refused" with the words, or "DIFFERS", and then the program ends with 1.
"""

import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import accrue
import gguf
import numpy as np
import peft
import torch
import transformers
from tokenizers import Tokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/tests/judges"))
import test_chats  # noqa: E402

HEAD = 8
# Every key that their config.json has; sizes are made small by small().
CONFIGURATIONS = {
    "GPT-2": ("gpt-2", None, {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
        "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": 50257}, {"bos_token_id": 50256, "eos_token_id": 50256,
                               "_from_model_config": True, "transformers_version": "4.26.0.dev0"}),
    "Llama 2 (TinyLlama)": ("llama-spm", test_chats.ZEPHYR, {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.35.0",
        "use_cache": True, "vocab_size": 32000}, {
        "bos_token_id": 1, "eos_token_id": 2, "max_length": 2048, "pad_token_id": 0,
        "transformers_version": "4.35.0"}),
    "Llama 3.2": ("llama-bpe", "meta-llama-Llama-3.2-3B-Instruct.jinja", {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64,
        "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0", "use_cache": True, "vocab_size": 128256}, {
        "bos_token_id": 128000, "do_sample": True, "eos_token_id": [128001, 128008, 128009],
        "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0.dev0"}),
    "Qwen2.5": ("qwen2", "Qwen-Qwen2.5-7B-Instruct.jinja", {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896,
        "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768,
        "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14,
        "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": True,
        "use_sliding_window": False, "vocab_size": 151936}, {
        "bos_token_id": 151643, "pad_token_id": 151643, "do_sample": True,
        "eos_token_id": [151645, 151643], "repetition_penalty": 1.1, "temperature": 0.7,
        "top_p": 0.8, "top_k": 20, "transformers_version": "4.37.0"}),
    "Mistral 0.2": ("llama-spm", None, {
        "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.36.0",
        "use_cache": True, "vocab_size": 32000}, {
        "bos_token_id": 1, "eos_token_id": 2, "transformers_version": "4.36.0"}),
    "SmolLM2": (None, None, {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576,
        "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
        "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
        "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.42.3", "use_cache": True, "vocab_size": 49152,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}}}, {
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
        "transformers_version": "4.42.3"})}
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != "
    "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}"
    "{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}"
    "{% endfor %}")
TEXTS = ["The gradient of a window is the sum.", "  two spaces,\n\n\ttabs and 1234567 digits's",
         "größe 你好 🙂👍🏽 é e\u0301", "def f(x):\n    return {'a': x ** 2}  # done\r\n", " x", "\n"]


class Refused(Exception):
    pass


def program(*arguments):
    done = subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)],
                          capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip().splitlines()[-1].removeprefix("accrue: error: "))
    return done.stdout + done.stderr


def by_accrue(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except accrue.Error as error:
        raise Refused(str(error)) from None


def difference(ours, theirs):
    """By the largest number there."""
    ours, theirs = (np.asarray(each, np.float64) for each in (ours, theirs))
    assert ours.shape == theirs.shape, f"DIFFERS: {ours.shape}, expected {theirs.shape}"
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def same(ours, theirs, what=""):
    assert ours == theirs, f"DIFFERS: {what}{str(ours)[:120]}, expected {str(theirs)[:120]}"
    return 0.0


def small(config):
    """Of two layers and narrow heads, the rest of the keys as they are."""
    width = next(key for key in ("hidden_size", "n_embd") if key in config)
    heads = config.get("num_attention_heads") or config["n_head"]
    made = {**config, width: HEAD * heads}
    made["n_layer" if "n_layer" in config else "num_hidden_layers"] = 2
    if "intermediate_size" in config:
        made["intermediate_size"] = config["intermediate_size"] * HEAD * heads // config[width]
    if "head_dim" in config:
        made["head_dim"] = HEAD
    return made


def make_tokenizer(folder, vocabulary, template):
    """As on the hub, of which a GGUF file has lost what stands here."""
    theirs = transformers.AutoTokenizer.from_pretrained(vocabulary.parent, gguf_file=vocabulary.name)
    theirs.chat_template = template or theirs.chat_template
    theirs.save_pretrained(folder)
    path = folder / "tokenizer.json"
    file = json.loads(path.read_text("utf-8"))
    if "llama-bpe" in vocabulary.name:
        file["model"]["ignore_merges"] = True
        begin = {"id": "<|begin_of_text|>", "ids": [128000], "tokens": ["<|begin_of_text|>"]}
        file["post_processor"] = {
            "type": "TemplateProcessing", "special_tokens": {begin["id"]: begin},
            **{kind: [{"SpecialToken": {"id": begin["id"], "type_id": 0}},
                      *({"Sequence": {"id": side, "type_id": 0}} for side in sides)]
               for kind, sides in (("single", "A"), ("pair", "AB"))}}
    elif "qwen2" in vocabulary.name:
        file["normalizer"] = {"type": "NFC"}
    path.write_text(json.dumps(file))


def make_model(folder, config, generation):
    for name, keys in (("config", config), ("generation_config", generation)):
        (folder / f"{name}.json").write_text(json.dumps(keys))
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(folder))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.normal_(0, 1 / p.shape[1] ** 0.5)
            else:  # which begin with 0 or 1
                p.normal_("norm" in name or "ln_" in name, 0.2)
    model.float().save_pretrained(folder / "drawn")
    shutil.move(folder / "drawn" / "model.safetensors", folder)
    shutil.rmtree(folder / "drawn")


class Model:
    """A directory of transformers', or a GGUF file, and what is made of it."""

    def __init__(self, source, work, vocabulary=None):
        self.source, self.work, self.vocabulary = source, work, vocabulary
        if source.is_dir():
            where, more = source, {}
        else:
            where, more = source.parent, {"gguf_file": source.name}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(where, **more)
        self.theirs = transformers.AutoModelForCausalLM.from_pretrained(
            where, dtype=torch.float32, attn_implementation="eager", **more).eval()
        draw = np.random.default_rng(0)
        ids = draw.integers(3, len(self.tokenizer) - 3, size=(4, 24))
        self.ids, self.learned = ids, draw.random(ids.shape) < 0.6
        self.weights = work / "weights.safetensors"

    def imported(self):
        if not self.weights.exists():
            program("text", "import", "--from", self.source, "--out", self.weights)
        return self.weights

    def logits(self, model=None):
        with torch.no_grad():
            return (model or self.theirs)(torch.tensor(self.ids)).logits.numpy()

    def loss(self, model):
        """Over the tokens that are learned."""
        logits = model(torch.tensor(self.ids)).logits[:, :-1]
        labels = torch.tensor(np.where(self.learned, self.ids, -100))[:, 1:]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def prepared(self, lines):
        """The tokens of each line, and which are learned; of the vocabulary if that is all it takes."""
        path, out = self.work / "lines.jsonl", self.work / "corpus"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for tokenizer in filter(None, (self.source, self.vocabulary)):
            shutil.rmtree(out, ignore_errors=True)
            try:
                program("text", "prepare", "--text", path, "--tokenizer", tokenizer, "--out", out)
                break
            except Refused as error:
                refused = error
                self.note = f"; of the GGUF file (of the tokenizer.json refused: {error})"
        else:
            raise refused
        many = json.loads((out / "corpus.json").read_text())["vocabulary"] > 65536
        tokens = np.fromfile(out / "tokens.bin", np.uint32 if many else np.uint16)
        ends = np.fromfile(out / "documents.bin", np.uint64).astype(int)
        learned = np.ones_like(tokens)
        if (out / "learned.bin").exists():
            learned = np.unpackbits(np.fromfile(out / "learned.bin", np.uint8), bitorder="little")
        begins = [0, *ends[:-1]]
        return [(tokens[b:e].tolist(), learned[b:e].tolist()) for b, e in zip(begins, ends)]

    def chats(self):
        if not self.tokenizer.chat_template:
            return []
        found = [test_chats.CHATS[0], test_chats.CHATS[2]]
        try:
            test_chats.expected(test_chats.CHATS[1], self.tokenizer)
            return [*found, test_chats.CHATS[1]]
        except Exception:  # a template without system messages
            return found

    def exported(self, weights, name, *options):
        out = self.work / name
        program("text", "export", "--weights", weights, "--out", out, *options)
        return out

    def trained(self):
        """With adapters that have learned."""
        path = self.work / "adapted.safetensors"
        if not path.exists():
            of_gguf = self.source.is_file()
            model = self.source if of_gguf else self.source / "config.json"
            more = {} if of_gguf else {"init": self.imported()}
            by_accrue(accrue.train, model, (self.ids, self.learned), lora=4, lora_alpha=6,
                      lora_targets="all", lr=0.02, steps=4, epochs=4, micro_batch=1,
                      effective_batch=4, **more).weights.save(path)
        return path


def tokens(m):
    end = m.tokenizer.eos_token_id
    return same([t for t, _ in m.prepared([{"text": text} for text in TEXTS])],
                [m.tokenizer(text).input_ids + [end] for text in TEXTS])


def template(m):
    got = m.prepared(m.chats() or test_chats.CHATS[:1])
    return same([t for t, _ in got],
                [test_chats.expected(chat, m.tokenizer)[0] for chat in m.chats()])


def mask(m):
    got = m.prepared(m.chats() or test_chats.CHATS[:1])
    return same([t for _, t in got],
                [test_chats.expected(chat, m.tokenizer)[1] for chat in m.chats()])


def logits(m):
    return difference(by_accrue(accrue.predict, m.imported(), m.ids), m.logits())


def loss(m):
    score = by_accrue(accrue.evaluate, m.imported(), data=(m.ids, m.learned))
    return difference(score["loss"], m.loss(m.theirs).item())


def gradient(m):
    """Of all weights over one window of four micro-batches: a step of SGD of the rate 1, by the
    largest number of each tensor's gradient."""
    before = accrue.Weights.load(m.imported())
    after = by_accrue(accrue.train, m.source / "config.json" if m.source.is_dir() else
                      "llama-tiny", (m.ids, m.learned), init=before, optimizer="sgd", momentum=0,
                      lr=1, steps=1, micro_batch=1, effective_batch=4).weights
    model = copy.deepcopy(m.theirs)
    m.loss(model).backward()
    named = dict(model.named_parameters())
    worst = 0.0
    for name in after:
        theirs = named[name].grad.numpy()
        step = before[name].astype(np.float64) - after[name]
        rounded = 2.0 ** -24 * np.abs(before[name]).max()  # the step is of rounded weights
        worst = max(worst, (np.abs(step - theirs).max() - rounded) / np.abs(theirs).max())
    return worst


def configuration(m):
    out = m.exported(m.imported(), "exported")
    for name in ("config.json", "generation_config.json"):
        if m.source.is_dir():
            ours, theirs = (json.loads((d / name).read_text()) for d in (out, m.source))
            for key in ("dtype", "torch_dtype"):
                ours.pop(key, None), theirs.pop(key, None)
            same(ours, theirs, name + ": ")
    again = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    same([tokenizer(t).input_ids for t in TEXTS], [m.tokenizer(t).input_ids for t in TEXTS])
    same(tokenizer.chat_template, m.tokenizer.chat_template)
    return difference(m.logits(again), m.logits())


def adapted(m):
    """PEFT's model of the exported adapters."""
    out = m.work / "adapters"
    if not out.exists():
        program("text", "export", "--adapter", "--base", m.source if m.source.is_dir() else "NAME",
                "--weights", m.trained(), "--out", out)
    return peft.PeftModel.from_pretrained(copy.deepcopy(m.theirs), out).eval()


def merged(m):
    path = m.work / "merged.safetensors"
    program("text", "merge", "--weights", m.trained(), "--out", path)
    out = m.exported(path, "merged")
    model = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    return difference(m.logits(model), m.logits(adapted(m).merge_and_unload()))


def of_peft(m):
    """Out and in."""
    model = adapted(m)
    theirs = m.logits(model)
    assert difference(theirs, m.logits()) > 1e-3, "DIFFERS: nothing was learned"
    out = difference(by_accrue(accrue.predict, m.trained(), m.ids), theirs)
    if m.source.is_file():
        return out
    model.save_pretrained(m.work / "of-peft")
    again = m.work / "again.safetensors"
    program("text", "import", "--from", m.work / "of-peft", "--base", m.imported(), "--out", again)
    return max(out, difference(by_accrue(accrue.predict, again, m.ids), theirs))


def into_gguf(m):
    """Merged, as transformers reads it."""
    name = "merged.gguf"
    m.exported(m.trained(), name, "--gguf-type", "F32")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        m.work, gguf_file=name, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(m.work, gguf_file=name)
    plain = {"add_special_tokens": False}  # which transformers does not read
    same([tokenizer(t, **plain).input_ids for t in TEXTS],
         [m.tokenizer(t, **plain).input_ids for t in TEXTS])
    fields = gguf.GGUFReader(m.work / name).fields
    written = fields.get("tokenizer.chat_template")
    same(written and written.contents(), m.tokenizer.chat_template)
    return difference(m.logits(model), m.logits(adapted(m)))


COLUMNS = {"tokens": (tokens, 0), "template": (template, 0), "learned mask": (mask, 0),
           "logits": (logits, 2e-5), "loss": (loss, 2e-6), "gradient": (gradient, 2e-4),
           "exported": (configuration, 0), "merged": (merged, 2e-5), "PEFT": (of_peft, 2e-5),
           "GGUF out": (into_gguf, 2e-5)}


def models(folder, real, work):
    for name, (vocabulary, chat, config, generation) in CONFIGURATIONS.items():
        here = work / name.replace(" ", "-")
        there = here / "there"
        there.mkdir(parents=True)
        if vocabulary:
            file = folder / f"ggml-vocab-{vocabulary}.gguf"
        elif real:
            file = real[0]
        else:
            continue
        if chat and chat.endswith(".jinja"):
            chat = (folder / "templates" / chat).read_text("utf-8")
        make_tokenizer(there, file, MISTRAL if name.startswith("Mistral") else chat)
        make_model(there, small(config), generation)
        yield name, Model(there, here, file)
        shutil.rmtree(here)
    for file in real:
        here = work / file.stem
        here.mkdir()
        yield f"{file.stem} (real)", Model(file, here)
        shutil.rmtree(here)


def cell(m, column):
    function, most = COLUMNS[column]
    m.note = ""
    try:
        found = function(m)
    except Refused as error:
        return f"refused: {error}".replace(str(m.work) + "/", "").replace("|", "\\|")
    except Exception as error:  # of transformers, too
        said = str(error) if isinstance(error, AssertionError) else f"DIFFERS: {error!r}"
        return said.replace("|", "\\|").replace("\n", " ")[:300]
    if found > most:
        return f"DIFFERS by {found:.1e}"
    return ("equal" if found == 0 else f"{found:.1e}") + m.note


def main():
    folder, *real = map(pathlib.Path, sys.argv[1:])
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for name, model in models(folder, real, pathlib.Path(work)):
            rows.append([name])
            for column in COLUMNS:
                rows[-1].append(cell(model, column))
                print(f"{name}: {column}: {rows[-1][-1]}", file=sys.stderr, flush=True)
    print("| | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return any("DIFFERS" in each for row in rows for each in row)


if __name__ == "__main__":
    sys.exit(main())
