"""llama.cpp runs the GGUF files that the program writes: it cuts texts into the same tokens, and
its models choose the same tokens greedily.

Its programs are in the folder that ACCRUE_TEST_LLAMA_CPP names, or on the PATH."""

import json
import os
import shutil
import subprocess
import sys

import accrue
import numpy as np
import pytest

NAMES = ("llama-completion", "llama-tokenize", "llama-quantize")
FOUND = {name: shutil.which(name, path=os.environ.get("ACCRUE_TEST_LLAMA_CPP"))
         for name in NAMES}
if None in FOUND.values():
    pytest.skip(f"{', '.join(NAMES)} of llama.cpp are neither on the PATH nor where "
                "ACCRUE_TEST_LLAMA_CPP says", allow_module_level=True)
gguf = pytest.importorskip("gguf")
torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
tokenizers, sentencepiece = (pytest.importorskip("tokenizers"),
                             pytest.importorskip("sentencepiece"))

pytestmark = pytest.mark.thorough

LEARNED = ["The gradient of a window is the sum of the gradients of its samples.",
           "A window of 12345 tokens, and  two spaces.\nIt's a café.", "the token that ends it"]
TEXTS = ["The gradient of a window", " of  two windows\n\n  it's 2026: naïve 猫 🙂", "<mark>and the token"]
PROMPT = TEXTS[0]
TOKENS = 24
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 128, "initializer_range": 0.3}
LLAMA = {**SIZES, "intermediate_size": 96, "num_key_value_heads": 2}


def program(*arguments):
    done = subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)],
                          capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    return done.stdout


def pieces(folder):
    """SentencePiece's tokenizer.model alone, as Llama 2 has it."""
    (folder / "learned").write_text("\n".join(LEARNED * 3), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=folder / "learned", model_prefix=str(folder / "tokenizer"), model_type="bpe",
        vocab_size=340, byte_fallback=True, normalization_rule_name="identity", minloglevel=2,
        remove_extra_whitespaces=False, split_digits=True, control_symbols=["<mark>"])
    return 340


def byte_level(before, normalizer=None):
    one = tokenizers.Tokenizer(tokenizers.models.BPE())
    one.pre_tokenizer, one.normalizer = before, normalizer
    one.decoder = tokenizers.decoders.ByteLevel()
    one.train_from_iterator(LEARNED * 3, tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<end>", "<mark>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    return one


def gpt2_files(folder):
    """vocab.json and merges.txt."""
    one = byte_level(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False))
    one.model.save(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return one.get_vocab_size()


QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")


def qwen2_json(folder):
    before = tokenizers.pre_tokenizers
    one = byte_level(before.Sequence([
        before.Split(tokenizers.Regex(QWEN2), "isolated"),
        before.ByteLevel(add_prefix_space=False, use_regex=False)]), tokenizers.normalizers.NFC())
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=one, eos_token="<end>", chat_template="{{ messages }}"
    ).save_pretrained(folder)
    return one.get_vocab_size() + 3  # 3 rows without a token


KINDS = {"pieces": (transformers.LlamaConfig, LLAMA, pieces),
         "gpt2": (transformers.GPT2Config, SIZES, gpt2_files),
         "qwen2": (transformers.Qwen2Config, LLAMA, qwen2_json)}


def weights_of(kind, folder):
    """Random weights, imported."""
    config, sizes, tokenizer = KINDS[kind]
    folder.mkdir()
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(
        config(**sizes, vocab_size=tokenizer(folder)))
    with torch.no_grad():  # one-dimensional parameters begin as 0 or 1
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    program("text", "import", "--from", folder, "--out", folder / "w.safetensors")
    return folder / "w.safetensors"


def completion(file, *options):
    """The greedy text after PROMPT, in float32 if the file is."""
    command = [FOUND["llama-completion"], "-m", file, "-p", PROMPT, "-n", str(TOKENS), "--temp", "0",
               "-no-cnv", "--no-warmup", "-t", "1", "-c", "128", "-ctk", "f32", "-ctv", "f32", "-fa",
               "off", "--special", "--no-display-prompt", *options]
    for _ in range(9):
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        if done.stdout.endswith(b"\n\n"):  # it may end before its thread has printed all
            return done.stdout.removesuffix(b"\n\n")
    raise AssertionError("llama-completion prints nothing")


def written(weights):
    text = program("text", "write", "--weights", weights, "--prompt", PROMPT, "--tokens", TOKENS,
                   "--temperature", "0")
    # llama.cpp prints no zero.
    return text.removeprefix(PROMPT.encode()).removesuffix(b"\n").replace(b"\0", b"")


def export(weights, out, *options):
    program("text", "export", "--weights", weights, "--out", out, *options)
    return out


def their_tokens(file, text):
    done = subprocess.run([FOUND["llama-tokenize"], "-m", file, "--stdin", "--ids", "--log-disable"],
                          input=text.encode(), capture_output=True, check=True)
    return json.loads(done.stdout)


def tensors_in(file):
    return {t.name: (t.tensor_type, t.data.tobytes()) for t in gguf.GGUFReader(file).tensors}


@pytest.mark.parametrize("kind", KINDS)
def test_model(kind, tmp_path):
    weights = weights_of(kind, tmp_path / "there")
    whole = export(weights, tmp_path / "F32.gguf", "--gguf-type", "F32")
    ours = written(weights)
    assert completion(whole) == ours
    assert completion(export(weights, tmp_path / "F16.gguf")) == ours
    # Tokens may differ, because llama.cpp rounds the factors of blocks. Its blocks are the same.
    for name in ("Q8_0", "Q4_0"):
        file = export(weights, tmp_path / f"{name}.gguf", "--gguf-type", name)
        subprocess.run([FOUND["llama-quantize"], "--pure", whole, tmp_path / "their.gguf", name],
                       check=True, capture_output=True)
        assert tensors_in(file) == tensors_in(tmp_path / "their.gguf")
        assert completion(file)
    # The tokens of each text, with the token that ends it.
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in TEXTS))
    program("text", "prepare", "--text", tmp_path / "t.jsonl", "--tokenizer", tmp_path / "there",
            "--out", tmp_path / "corpus")
    end = int(gguf.GGUFReader(whole).fields["tokenizer.ggml.eos_token_id"].contents())
    assert np.fromfile(tmp_path / "corpus" / "tokens.bin", np.uint16).tolist() == [
        token for text in TEXTS for token in (*their_tokens(whole, text), end)]


@pytest.mark.parametrize("kind", KINDS)
def test_adapters(kind, tmp_path):
    """Adapters beside a base, and merged into it."""
    weights, tuned = weights_of(kind, tmp_path / "there"), tmp_path / "tuned.safetensors"
    base = export(weights, tmp_path / "base.gguf", "--gguf-type", "F32")
    (tmp_path / "t.jsonl").write_text("\n".join(
        json.dumps({"text": f"{text} {i}"}) for i in range(12) for text in LEARNED))
    below = ("--init", weights) if kind == "gpt2" else ("--base", base)
    program("train", *below, "--lora", 4, "--lora-alpha", 6, "--lora-targets", "all", "--lora-rs",
            "yes", "--data", tmp_path / "t.jsonl", "--context", 16, "--micro-batch", 2,
            "--effective-batch", 4, "--steps", 8, "--lr", 0.02, "--optimizer", "adamw", "--save",
            tuned)
    ours = written(tuned)
    assert ours != written(weights)
    adapters = export(tuned, tmp_path / "lora.gguf", "--adapter")
    assert completion(base, "--lora", adapters) == ours
    types = "F32" if kind == "gpt2" else "base"
    assert completion(export(tuned, tmp_path / "merged.gguf", "--gguf-type", types)) == ours
