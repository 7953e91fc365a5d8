"""tokenizers and sentencepiece cut texts as the program does, and PEFT takes its adapters."""

import json
import pathlib
import random
import subprocess
import sys

import accrue
import numpy as np
import pytest

pytestmark = pytest.mark.thorough

NOUNS = ("cat", "cats", "café", "cafe\u0301", "猫", "banana", "aaaaaa", "12", "HE'S 12345\r\n\r\n")
# A text with many pairs that occur equally often, and characters of two and three bytes.
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


@pytest.mark.parametrize("kind", ("blank", "composed", "lines"))
def test_long_texts(kind, tmp_path, monkeypatch):
    """The program cuts 2.5 MB into parts without a change to the tokens: at spaces, where marks are
    composed, with tokens that hold a space, and if words span spaces up to the end of a line."""
    tokenizers = pytest.importorskip("tokenizers")
    split = tokenizers.pre_tokenizers.Split("\n", "isolated")
    theirs = learned(special=["<|endoftext|>"], **{
        "blank": {"add_prefix_space": True}, "composed": {"normalizer": "NFC"},
        "lines": {"before": [split], "use_regex": False}}[kind])
    theirs.add_tokens([tokenizers.AddedToken("sees the", normalized=False)])
    theirs.save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setitem(globals(), "TEXT", TEXT * (2_500_000 // len(TEXT.encode()) + 1))
    assert tokens_of(tmp_path, "--tokenizer", tmp_path / "tokenizer.json") == [
        *theirs.encode(TEXT).ids, theirs.token_to_id("<|endoftext|>")]


@pytest.mark.parametrize("has_bytes, prefix, words", (
    (True, True, True), (True, False, True), (False, True, True), (False, False, False),
    (True, True, False)))
def test_sentencepiece(has_bytes, prefix, words, tmp_path):
    """A model learned from the documentation cuts 1.3 MB of it and of random characters: with and
    without bytes, a space before a text and pieces of several words."""
    sentencepiece, gguf = pytest.importorskip("sentencepiece"), pytest.importorskip("gguf")
    draw, own = random.Random(1), ["<note>", "a<n"]
    ranges = [(32, 127), (160, 0x250), (0x370, 0x530), (0x3040, 0x3100), (0x4e00, 0x9fff),
              (0x1f300, 0x1f650), (0, 32), (0x2580, 0x2583), (0x10000, 0x10ffff)]
    parts = [" ", "  ", "\n", "<note>", "the ", "    ", "aaaa"]
    at_random = "".join(chr(draw.randint(*draw.choice(ranges))) if draw.random() < 0.7
                        else draw.choice(parts) for _ in range(100000))
    docs = pathlib.Path(__file__).parents[3] / "docs"
    # In a text, <s> is a control token to the program and to transformers, and letters to the judge.
    learned = "\n".join(p.read_text("utf-8") for p in sorted(docs.glob("*.md"))).replace("<s>", "")
    lines = learned.split("\n") * 4
    draw.shuffle(lines)
    texts = [at_random + "\n".join(lines) + " end  ", *draw.sample([s for s in lines if s], 500)]
    (tmp_path / "learned").write_text(learned + "\n" + at_random[:20000].replace("\0", ""), "utf-8")
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in texts))
    sentencepiece.SentencePieceTrainer.train(
        input=tmp_path / "learned", model_prefix=str(tmp_path / "model"), model_type="bpe",
        vocab_size=2500, byte_fallback=has_bytes, add_dummy_prefix=prefix, minloglevel=2,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=0.98, split_by_whitespace=words, split_digits=words,
        allow_whitespace_only_pieces=True, user_defined_symbols=own, control_symbols=["<ctl>"])
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model.model"))
    file, ids = gguf.GGUFWriter(tmp_path / "model.gguf", "llama"), range(theirs.vocab_size())
    file.add_tokenizer_model("llama")
    file.add_token_list([theirs.id_to_piece(i) for i in ids])
    file.add_token_scores([theirs.get_score(i) for i in ids])
    file.add_token_types([6 if theirs.is_byte(i) else 3 if theirs.is_control(i) else
                          2 if theirs.is_unknown(i) else 4 if theirs.id_to_piece(i) in own else 1
                          for i in ids])
    file.add_eos_token_id(theirs.eos_id())
    file.add_add_space_prefix(prefix)
    file.add_add_bos_token(prefix)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    program("text", "prepare", "--text", tmp_path / "texts.jsonl", "--out", tmp_path / "corpus",
            "--tokenizer", tmp_path / "model.gguf")
    tokens = np.fromfile(tmp_path / "corpus" / "tokens.bin", np.uint16).tolist()
    assert tokens == [t for text in texts for t in (
        *theirs.encode(text, add_bos=prefix), theirs.eos_id())]


@pytest.mark.parametrize("name", ("gpt2", "llama"))
def test_adapters(name, tmp_path):
    """PEFT computes the same loss and logits with the adapters."""
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
    program("text", "export", "--adapter", "--base", tmp_path, "--weights", path, "--out",
            tmp_path / "adapter")
    base, tokens = AutoModelForCausalLM.from_pretrained(tmp_path).double(), torch.tensor(rows)

    alone = base(input_ids=tokens, labels=tokens)
    model = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").double()
    adapted = model(input_ids=tokens, labels=tokens)
    assert adapted.loss.item() == pytest.approx(accrue.evaluate(path, data=rows)["loss"], rel=1e-5)
    assert adapted.loss < alone.loss - 0.1
    # The logits' magnitude is 4 at most; two layers add up 24 terms at most.
    np.testing.assert_allclose(accrue.predict(path, rows), adapted.logits.detach(), rtol=0,
                               atol=1e-5)


def test_embeddings(tmp_path):
    """Embeddings of texts of any lengths are the same as transformers' with the exported model."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    pairs, weights = tmp_path / "pairs.jsonl", tmp_path / "weights"
    pairs.write_text("".join(json.dumps({"anchor": f"{a} {b}", "positive": f"{b} and {a}"}) + "\n"
                             for a in NOUNS for b in NOUNS), "utf-8")
    accrue.train("llama-tiny", pairs, layers=1, lr=0.01, context=64, micro_batch=4,
                 effective_batch=8).weights.save(weights)
    documents = [np.arange(5, 5 + n) for n in (1, 9, 4)]
    ours = accrue.predict(weights, documents)
    program("text", "export", "--weights", weights, "--out", tmp_path / "there")
    model = transformers.AutoModel.from_pretrained(tmp_path / "there").eval()
    for document, embedding in zip(documents, ours, strict=True):
        with torch.no_grad():
            mean = model(torch.tensor(document[None])).last_hidden_state.mean(1)[0]
        np.testing.assert_allclose(embedding, mean / mean.norm(), rtol=0, atol=1e-6)
