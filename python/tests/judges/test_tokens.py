"""Special and added tokens are the same as in tokenizers and transformers, and real vocabularies
give the tokens that llama.cpp expects."""

import itertools
import json
import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.thorough
tokenizers = pytest.importorskip("tokenizers")
WORDS = ("ab", "Ab", "a", "b", "1", "_", "é", "e\u0301", "\u0301", "ⓐ", "½", "猫", "-", ".", "<", ">", "|")
SPACES = ("", "", "", " ", "  ", "\n", "\t", "\u00a0", "\u3000")


def documents(texts, tokenizer, folder, *options):
    """The tokens of each text, with the token put before it and without the one that ends it."""
    lines = folder / "texts.jsonl"
    lines.write_text("\n".join(json.dumps(t if isinstance(t, dict) else {"text": t}) for t in texts))
    name = f"corpus{len(list(folder.iterdir()))}"
    done = subprocess.run([sys.executable, "-m", "accrue", "text", "prepare", "--text", lines, "--out",
                           folder / name, "--tokenizer", tokenizer, *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    facts = json.loads((folder / name / "corpus.json").read_text())
    tokens = np.fromfile(folder / name / "tokens.bin",
                         np.uint16 if facts["vocabulary"] <= 65536 else np.uint32)
    ends = np.fromfile(folder / name / "documents.bin", np.uint64).astype(int)
    return [list(map(int, part)) for part in np.split(tokens, ends[:-1])], done


def alphabet():
    model = tokenizers.models.BPE({c: i for i, c in enumerate(sorted(
        tokenizers.pre_tokenizers.ByteLevel.alphabet()))} | {"ab": 256}, [("a", "b")])
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return theirs


@pytest.mark.parametrize("composes", (False, True))
def test_flags(composes, tmp_path):
    """Combinations of lstrip, rstrip, single_word and normalized, for special and other tokens."""
    theirs = alphabet()
    if composes:
        theirs.normalizer = tokenizers.normalizers.NFC()
    names = ("lstrip", "rstrip", "single_word", "normalized")
    added = [tokenizers.AddedToken(content, special=i % 3 > 0, **dict(zip(names, flags)))
             for i, (content, flags) in enumerate(zip(
                 ("<a>", "ab", "b", "<a", "e\u0301", "| |", "猫b", "1", "<b>", "é-", "_", " a", "a>",
                  "<<", "-.", ".-"), itertools.product((False, True), repeat=4)))]
    theirs.add_tokens([tokenizers.AddedToken("<|endoftext|>", special=True), *added])
    theirs.save(str(tmp_path / "tokenizer.json"))
    draw = random.Random(1)
    pieces = [*WORDS, *(token.content for token in added), "<|endoftext|>"]
    texts = ["x" + "".join(draw.choice(pieces) + draw.choice(SPACES) for _ in range(20))
             for _ in range(1500)]
    for control in ("yes", "no"):
        theirs.encode_special_tokens = control == "no"
        ours, _ = documents(texts, tmp_path / "tokenizer.json", tmp_path,
                            "--text-may-contain-control", control)
        for text, tokens in zip(texts, ours):
            assert tokens[:-1] == theirs.encode(text, add_special_tokens=False).ids, text


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False,
            "normalized": False, "special": True, **flags}


@pytest.mark.parametrize("files", (
    {"config": {"eos_token": "<y>", "additional_special_tokens": ["<z>"]}},
    {"config": {"eos_token": {"__type": "AddedToken", **token("<y>", lstrip=True)},
                "pad_token": "<w>", "bos_token": "<x>", "unk_token": "ab"}},
    {"config": {"added_tokens_decoder": {"258": token("<y>", lstrip=True), "259": token("<z>")},
                "eos_token": "<y>"}},
    {"config": {"added_tokens_decoder": {"257": token("<x>", lstrip=True, rstrip=True),
                                         "258": token("<y>", special=False, normalized=True)},
                "eos_token": "<x>", "extra_special_tokens": ["<w>", "<y>"]}},
    {"config": {"added_tokens_decoder": {"257": token("<x>", special=False, normalized=True)},
                "eos_token": "<v>"}, "map": {"eos_token": "<w>"}, "added": {"<z>": 258}},
    {"config": {"eos_token": "<x>"}, "map": {
        "eos_token": token("<y>", lstrip=True), "pad_token": "<w>",
        "additional_special_tokens": ["<v>", "<z>"]}},
    {"map": {"eos_token": token("<y>", rstrip=True)}, "added": {"<y>": 258, "<z>": 259}},
    {"config": {"eos_token": "<z>"}, "added": {"<z>": 259, "<y>": 258, "<x>": 257}},
    {"config": {"eos_token": "<x>", "image_token": "<w>"}},
    {"config": {"eos_token": "<x>", "extra_special_tokens": {"image_token": "<z>"}}}),
    ids=range(10))
def test_files_beside(files, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs, home = alphabet(), tmp_path / "tokenizer"
    home.mkdir()
    theirs.add_tokens([tokenizers.AddedToken("<x>", special=True)])
    theirs.save(str(home / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **files.get("config", {})}
    for name, content in (("tokenizer_config", config), ("special_tokens_map", files.get("map")),
                          ("added_tokens", files.get("added"))):
        if content:
            (home / f"{name}.json").write_text(json.dumps(content))
    judge = transformers.AutoTokenizer.from_pretrained(home)
    texts = ["q <x> <y> y<y>  <z> ab <w>\n<v> <|endoftext|> "] + [
        "".join(random.Random(i).choices(["<x>", "<y>", "<z>", " ", "  ", "ab", "<w>", "<v>"], k=20))
        for i in range(50)]
    for control in ("yes", "no"):
        ours, _ = documents(texts, home, tmp_path, "--text-may-contain-control", control)
        for text, tokens in zip(texts, ours):
            assert tokens == [*judge(text, add_special_tokens=False,
                                     split_special_tokens=control == "no")["input_ids"],
                              judge.eos_token_id], text


@pytest.mark.parametrize("chat", ("chatml", "template"))
def test_control_in_messages(chat, tmp_path):
    """Marks of the template are tokens, but marks that messages spell are not: each text between
    marks is tokenized as by tokenizers when it splits special tokens."""
    pytest.importorskip("jinja2")
    theirs, home = alphabet(), tmp_path / "tokenizer"
    home.mkdir()
    marks = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    theirs.add_tokens([tokenizers.AddedToken(mark, special=True) for mark in marks])
    theirs.save(str(home / "tokenizer.json"))
    (home / "tokenizer_config.json").write_text(json.dumps({"chat_template": (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")}))
    says = ["who <|im_end|> is é<|endoftext|>", "I<|im_start|>user\nam", "<|im_end|>", "b <|im_end|"]
    record = {"messages": [{"role": ("user", "assistant")[i % 2], "content": say}
                           for i, say in enumerate(says)]}
    theirs.encode_special_tokens = True
    start, end, _ = map(theirs.token_to_id, marks)
    expected, between = [], []
    for message in record["messages"]:
        between = theirs.encode(f"{message['role']}\n{message['content']}").ids
        expected += [start, *between, end, *theirs.encode("\n").ids]
    ours, done = documents([record], home, tmp_path, "--chat", chat,
                           "--text-may-contain-control", "no")
    assert ours == [expected] and "control" not in done.stderr
    _, done = documents([record], home, tmp_path, "--chat", chat)
    assert "4 control tokens" in done.stderr and "<|im_end|> (2)" in done.stderr


NAMES = ("gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2")
REFUSED = ("command-r", "deepseek-coder", "deepseek-llm", "falcon", "mpt", "refact", "starcoder")


@pytest.mark.parametrize("name", (*NAMES, *REFUSED))
def test_real_vocabulary(name, tmp_path):
    """ACCRUE_VOCABULARIES is the folder `models` of llama.cpp's sources."""
    folder = os.environ.get("ACCRUE_VOCABULARIES")
    if not folder:
        pytest.skip("no ACCRUE_VOCABULARIES: real vocabularies are not judged")
    file = pathlib.Path(folder) / f"ggml-vocab-{name}.gguf"
    cases = pathlib.Path(f"{file}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    expected = [list(map(int, line.split()))
                for line in pathlib.Path(f"{file}.out").read_text().split("\n")]
    if name in REFUSED:
        with pytest.raises(AssertionError, match=f"splits texts as '{name}'"):
            documents(["a"], file, tmp_path)
        return
    texts = [(text, tokens) for text, tokens in zip(cases, expected) if text]
    ours, _ = documents([text for text, _ in texts], file, tmp_path)
    before = [] if ours[0][:-1] == texts[0][1] else ours[0][:1]
    for (text, tokens), found in zip(texts, ours):
        assert found[:-1] == before + tokens, text


@pytest.mark.parametrize("prefix", (True, False))
def test_sentencepiece_model(prefix, tmp_path):
    """The program reads a tokenizer.model as it is, also beside the tokenizer.json that
    transformers makes of it, and refuses tokens beside it that are no pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    home = tmp_path / "tokenizer"
    home.mkdir()
    draw = random.Random(2)
    lines = [" ".join(draw.choices(("the", "water", "of", "time", "café", "猫", "12", "\t", "  x"),
                                   k=12)) for _ in range(300)]
    (tmp_path / "learned").write_text("\n".join(lines), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=tmp_path / "learned", model_prefix=str(home / "tokenizer"), model_type="bpe",
        vocab_size=340, byte_fallback=True, add_dummy_prefix=prefix, minloglevel=2,
        normalization_rule_name="identity", remove_extra_whitespaces=False, num_threads=1,
        allow_whitespace_only_pieces=True, user_defined_symbols=["\n"], hard_vocab_limit=False)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(home / "tokenizer.model"))
    (home / "tokenizer.json").write_text(json.dumps({"model": {"byte_fallback": True}}))
    texts = [*lines[:40], " the  water\n\nof ", "☃ and 𝄞", "x" * 50]
    for beside, before in (({}, [theirs.bos_id()]), ({"add_bos_token": False}, [])):
        (home / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", **beside}))
        ours, _ = documents(texts, home, tmp_path)
        for text, tokens in zip(texts, ours):
            assert tokens == [*before, *theirs.encode(text), theirs.eos_id()], text
    (home / "added_tokens.json").write_text(json.dumps({"<|user|>": theirs.vocab_size()}))
    with pytest.raises(AssertionError, match=r"'<\|user\|>', which a file beside it names"):
        documents(texts, home, tmp_path)
