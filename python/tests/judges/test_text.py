"""tokenizers cuts texts as the program does, and PEFT takes its adapters."""

import json
import subprocess
import sys

import accrue
import numpy as np
import pytest

pytestmark = pytest.mark.thorough

NOUNS = ("cat", "cats", "café", "cafe\u0301", "猫", "banana", "aaaaaa", "12", "HE'S 12345\r\n\r\n")
# With many pairs that occur equally often, and characters of two and three bytes.
TEXT = "".join(f"The {NOUNS[i % 9]} sees{' ' if i % 3 else '   '}the {NOUNS[i * i % 9]}'s "
               f"{NOUNS[i // 3 % 9]}.\n" for i in range(400))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def program(*arguments):
    subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)], check=True)


def tokens_of(folder, *tokenizer):
    """TEXT as tokens, with the end of the text."""
    (folder / "text").write_bytes(TEXT.encode())
    program("text", "prepare", "--text", folder / "text", "--out", folder / "corpus", *tokenizer)
    return np.fromfile(folder / "corpus" / "tokens.bin", np.uint16).tolist()


def learned(normalizer=None, before=(), special=(), **options):
    """A tokenizer that tokenizers learned from TEXT."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = getattr(normalizers, normalizer)()
    level = pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, level]) if before else level
    tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=279, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special), show_progress=False))
    return tokenizer


def test_learned_merges(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    tokens, theirs = tokens_of(tmp_path, "--train-tokenizer", 280), learned()
    path = tmp_path / "corpus" / "tokenizer.json"
    model, ours = json.loads(theirs.to_str())["model"], json.loads(path.read_text("utf-8"))["model"]
    assert [" ".join(pair) for pair in model["merges"]] == ours["merges"]
    end = len(model["vocab"])
    assert {**model["vocab"], "<|endoftext|>": end} == ours["vocab"]
    assert tokens == [*theirs.encode(TEXT).ids, end]
    assert tokens[:-1] == tokenizers.Tokenizer.from_file(str(path)).encode(TEXT).ids


@pytest.mark.parametrize("kind", ("bytes", "blank", "composed", "llama3", "digits"))
def test_tokens(kind, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    before = tokenizers.pre_tokenizers
    options = {"bytes": {}, "blank": {"add_prefix_space": True}, "composed": {"normalizer": "NFC"},
               "llama3": {"before": [before.Split(tokenizers.Regex(LLAMA3), "isolated")],
                          "use_regex": False},
               "digits": {"before": [before.Digits(individual_digits=True)]}}[kind]
    theirs = learned(special=["<|endoftext|>"], **options)
    theirs.save(str(tmp_path / "tokenizer.json"))
    assert tokens_of(tmp_path, "--tokenizer", tmp_path / "tokenizer.json") == [
        *theirs.encode(TEXT).ids, theirs.token_to_id("<|endoftext|>")]


@pytest.mark.parametrize("name", ("gpt2", "llama"))
def test_adapters(name, tmp_path):
    """PEFT has the loss and the logits that they had here."""
    peft, torch = pytest.importorskip("peft"), pytest.importorskip("torch")
    import golden_text
    from transformers import AutoModelForCausalLM

    model = dict(golden_text.models())[name]
    golden_text.draw(name, model)
    model.float().save_pretrained(tmp_path)
    rows, path = np.random.default_rng(0).integers(0, 23, size=(4, 12)), tmp_path / "tuned"
    trained = accrue.train(tmp_path, rows, init=tmp_path / "model.safetensors", lora=2,
                           lora_alpha=6, lora_rs="yes", lora_targets="all", lr=0.1, steps=5,
                           epochs=5, micro_batch=2, effective_batch=4)
    trained.weights.save(path)
    program("text", "export", "--adapter", "--weights", path, "--out", tmp_path / "adapter")
    base, tokens = AutoModelForCausalLM.from_pretrained(tmp_path).double(), torch.tensor(rows)

    alone = base(input_ids=tokens, labels=tokens)
    model = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").double()
    adapted = model(input_ids=tokens, labels=tokens)
    assert adapted.loss.item() == pytest.approx(accrue.evaluate(path, data=rows)["loss"], rel=1e-5)
    assert adapted.loss < alone.loss - 0.1
    # Of magnitude 4 at most, by sums of 24 terms at most in two layers.
    np.testing.assert_allclose(accrue.predict(path, rows), adapted.logits.detach(), rtol=0,
                               atol=1e-5)
