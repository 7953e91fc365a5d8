#!/usr/bin/env python3
"""A table: models x operations on them, compared with transformers, tokenizers, PEFT and gguf.

    python3 scripts/judge_text.py llama.cpp/models [FILE.gguf ...] > table.md

The first folder comes from llama.cpp's source: its vocabularies ggml-vocab-*.gguf and chat
templates are the ones of GPT-2, Llama, Qwen2.5 and Mistral. Their models are random, with the keys
of the configurations on the hub (hub_configurations.py), and smaller: they have the same number of
heads, with 8 channels each, and 2 layers. Each FILE.gguf is a real Llama or Qwen2, tokenizer
included; the small SmolLM2 uses the tokenizer of the first, too. The module accrue is the one on
the PYTHONPATH, and computes in float32; the others compute in float64. A cell says "equal", with
the largest difference relative to the largest number, "refused" with the message, or "DIFFERS";
then the program exits with 1.
"""

import argparse
import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import accrue
import gguf
import numpy as np
import peft
import tokenizers
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/tests/judges"))
import test_chats  # noqa: E402
from hub_configurations import CONFIGURATIONS  # noqa: E402

HEAD = 8
SPLITS = {name: (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits +
                 r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
          for name, digits in (("llama-bpe", r"\p{N}{1,3}"), ("qwen2", r"\p{N}"))}
# The end of an answer, the eos_token in the tokenizers of instruct models.
ENDS = {"llama-bpe": "<|eot_id|>", "qwen2": "<|im_end|>"}
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


def loaded(where, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(
        where, dtype=torch.float32, **options).eval().double()


def difference(ours, theirs):
    """The largest difference, relative to the largest of their numbers."""
    ours, theirs = (np.asarray(each, np.float64) for each in (ours, theirs))
    assert ours.shape == theirs.shape, f"DIFFERS: {ours.shape}, expected {theirs.shape}"
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def same(ours, theirs, what=""):
    assert ours == theirs, f"DIFFERS: {what}{str(ours)[:120]}, expected {str(theirs)[:120]}"
    return 0.0


def small(config):
    """The configuration with two layers and narrow heads, and its other keys unchanged."""
    width = next(key for key in ("hidden_size", "n_embd") if key in config)
    heads = config.get("num_attention_heads") or config["n_head"]
    made = {**config, width: HEAD * heads}
    made["n_layer" if "n_layer" in config else "num_hidden_layers"] = 2
    if "intermediate_size" in config:
        made["intermediate_size"] = config["intermediate_size"] * HEAD * heads // config[width]
    if "head_dim" in config:
        made["head_dim"] = HEAD
    return made


def byte_level(fields, name):
    """The BPE of a tokenizer.json."""
    kinds = fields["tokenizer.ggml.token_type"].contents()
    pieces = [piece for piece, kind in zip(fields["tokenizer.ggml.tokens"].contents(), kinds)
              if not piece.startswith("[PAD")]
    special = [piece for piece, kind in zip(pieces, kinds) if kind == gguf.TokenType.CONTROL]
    before = tokenizers.pre_tokenizers
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        {piece: i for i, piece in enumerate(pieces)},
        [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()],
        ignore_merges="llama" in name))
    if name in SPLITS:
        made.pre_tokenizer = before.Sequence([
            before.Split(tokenizers.Regex(SPLITS[name]), "isolated"),
            before.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        made.pre_tokenizer = before.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(special)
    if "qwen" in name:
        made.normalizer = tokenizers.normalizers.NFC()
    if "llama" in name:
        begin = pieces[fields["tokenizer.ggml.bos_token_id"].contents()]
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, pieces.index(begin))])
    return made


def make_tokenizer(folder, vocabulary, name, template, end):
    """Makes the tokenizer as on the hub from a GGUF file, which lacks parts of it."""
    fields = gguf.GGUFReader(vocabulary).fields
    if fields["tokenizer.ggml.model"].contents() == "gpt2" and name:
        pieces = fields["tokenizer.ggml.tokens"].contents()
        theirs = transformers.PreTrainedTokenizerFast(
            tokenizer_object=byte_level(fields, name),
            bos_token=pieces[fields["tokenizer.ggml.bos_token_id"].contents()],
            eos_token=end or pieces[fields["tokenizer.ggml.eos_token_id"].contents()])
    else:
        theirs = transformers.AutoTokenizer.from_pretrained(vocabulary.parent,
                                                            gguf_file=vocabulary.name)
        if fields["tokenizer.ggml.model"].contents() == "llama":
            theirs.backend_tokenizer.pre_tokenizer = None
            theirs.backend_tokenizer.normalizer = tokenizers.normalizers.Sequence([
                tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")])
    theirs.chat_template = template or theirs.chat_template
    theirs.save_pretrained(folder)


def with_template(vocabulary, template, path):
    """The same tokenizer with a template for chats."""
    reader = gguf.GGUFReader(vocabulary)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("tokenizer.") and key != "tokenizer.chat_template":
            of = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), field.types[0], of)
    if template:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


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
            else:  # these parameters begin with 0 or 1
                p.normal_("norm" in name or "ln_" in name, 0.2)
    model.float().save_pretrained(folder / "drawn")
    shutil.move(folder / "drawn" / "model.safetensors", folder)
    shutil.rmtree(folder / "drawn")


class Model:
    """A directory in transformers' format, or a GGUF file, and the files made from it."""

    def __init__(self, source, work, vocabulary=None):
        self.source, self.work, self.vocabulary = source, work, vocabulary
        if source.is_dir():
            where, more = source, {}
        else:
            where, more = source.parent, {"gguf_file": source.name}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(where, **more)
        self.theirs = loaded(where, **more)
        draw = np.random.default_rng(0)
        ids = draw.integers(3, len(self.tokenizer) - 3, size=(4, 24))
        self.ids, self.learned = ids, draw.random(ids.shape) < 0.6
        self.weights, self.more = work / "weights.safetensors", ()

    def imported(self):
        if not self.weights.exists():
            said = program("text", "import", "--from", self.source, "--out", self.weights)
            if "which tokenizer they learned by" in said:
                self.more = ("--tokenizer", self.vocabulary)
        return self.weights

    def logits(self, model=None):
        with torch.no_grad():
            return (model or self.theirs)(torch.tensor(self.ids)).logits.numpy()

    def loss(self, model):
        """The mean loss over the tokens that are learned."""
        logits = model(torch.tensor(self.ids)).logits[:, :-1]
        labels = torch.tensor(np.where(self.learned, self.ids, -100))[:, 1:]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def prepared(self, lines):
        """The tokens of each line, and which are learned. Uses the vocabulary if the program
        refuses the directory's tokenizer."""
        path, out = self.work / "lines.jsonl", self.work / "corpus"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for tokenizer in filter(None, (self.source, self.vocabulary)):
            shutil.rmtree(out, ignore_errors=True)
            try:
                program("text", "prepare", "--text", path, "--tokenizer", tokenizer, "--out", out)
                break
            except Refused as error:
                refused = error
                self.note = f", from GGUF; tokenizer.json refused: {error}"
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
        """The path of weights with trained adapters."""
        path = self.work / "adapted.safetensors"
        if not path.exists():
            below = {"init": self.imported()} if self.source.is_dir() else {"model": self.source}
            by_accrue(accrue.train, data=(self.ids, self.learned), lora=4, lora_alpha=6,
                      lora_targets="all", lr=0.02, steps=4, epochs=4, micro_batch=1,
                      effective_batch=4, **below).weights.save(path)
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
    """Compares the gradient of all weights over one window of four micro-batches: a step of SGD
    with rate 1, relative to the largest number in each tensor's gradient."""
    before = accrue.Weights.load(m.imported())
    after = by_accrue(accrue.train, data=(m.ids, m.learned), init=before, optimizer="sgd",
                      momentum=0, lr=1, steps=1, micro_batch=1, effective_batch=4).weights
    model = copy.deepcopy(m.theirs)
    m.loss(model).backward()
    named = dict(model.named_parameters())
    worst = 0.0
    for name in after:
        theirs = named[name].grad.numpy()
        step = before[name].astype(np.float64) - after[name]
        rounded = 2.0 ** -24 * np.abs(before[name]).max()  # the weights are rounded
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
    again = loaded(out)
    if m.more:
        m.note = ", without the tokenizer"
    else:
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
    return peft.PeftModel.from_pretrained(copy.deepcopy(m.theirs), out).eval().double()


def merged(m):
    path = m.work / "merged.safetensors"
    program("text", "merge", "--weights", m.trained(), "--out", path)
    out = m.exported(path, "merged")
    return difference(m.logits(loaded(out)), m.logits(adapted(m).merge_and_unload()))


def of_peft(m):
    """Adapters exported to PEFT, and imported again."""
    model = adapted(m)
    theirs = m.logits(model)
    assert difference(theirs, m.logits()) > 1e-3, "DIFFERS: nothing was learned"
    # PEFT's own results in float32 show how much rounding these adapters allow.
    rounding = difference(m.logits(model.float()), theirs)
    out = difference(by_accrue(accrue.predict, m.trained(), m.ids), theirs)
    assert out <= max(2e-5, 4 * rounding), f"DIFFERS by {out:.1e}, in float32 there {rounding:.1e}"
    if m.source.is_file():
        return out
    model.save_pretrained(m.work / "of-peft")
    again = m.work / "again.safetensors"
    program("text", "import", "--from", m.work / "of-peft", "--base", m.imported(), "--out", again)
    return max(out, difference(by_accrue(accrue.predict, again, m.ids), theirs))


def into_gguf(m):
    """The merged model as a GGUF file, read by transformers."""
    name = "merged.gguf"
    m.exported(m.trained(), name, "--gguf-type", "F32", *m.more)
    model = loaded(m.work, gguf_file=name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(m.work, gguf_file=name)

    theirs = m.tokenizer
    if m.more:  # transformers makes another tokenizer of this vocabulary's file
        theirs = transformers.AutoTokenizer.from_pretrained(m.work, gguf_file=m.vocabulary.name)

    # A GGUF file does not mention NFC, and transformers leaves out the token that begins a text.
    def ids(of):
        return [of(unicodedata.normalize("NFC", text), add_special_tokens=False).input_ids
                for text in TEXTS]

    same(ids(tokenizer), ids(theirs))
    fields = gguf.GGUFReader(m.work / name).fields
    written = fields.get("tokenizer.chat_template")
    same(written and written.contents(), m.tokenizer.chat_template)
    return difference(m.logits(model), m.logits(adapted(m)))


COLUMNS = {"tokens": (tokens, 0), "template": (template, 0), "learned mask": (mask, 0),
           "logits": (logits, 2e-5), "loss": (loss, 2e-6), "gradient": (gradient, 2e-4),
           "exported": (configuration, 1e-6), "merged": (merged, 2e-5), "PEFT": (of_peft, 1e-3),
           "GGUF out": (into_gguf, 2e-5)}


def models(folder, real, only, work):
    for name, (vocabulary, chat, config, generation) in CONFIGURATIONS.items():
        if only not in name or not (vocabulary or real):
            continue
        here = work / name.replace(" ", "-")
        there = here / "there"
        there.mkdir(parents=True)
        file = folder / f"ggml-vocab-{vocabulary}.gguf" if vocabulary else real[0]
        if chat and chat.endswith(".jinja"):
            chat = (folder / "templates" / chat).read_text("utf-8")
        make_tokenizer(there, file, vocabulary, chat, ENDS.get(vocabulary))
        make_model(there, small(config), generation)
        yield name, Model(there, here, with_template(file, chat, here / "vocabulary.gguf"))
        shutil.rmtree(here)
    for file in real:
        if only not in file.name:
            continue
        here = work / file.stem
        here.mkdir()
        yield f"{file.stem} (real)", Model(file, here)
        shutil.rmtree(here)


def plain(words, m):
    return words.replace(str(m.work) + "/", "").replace("|", "\\|").replace("\n", " ")


def cell(m, column):
    function, most = COLUMNS[column]
    m.note = ""
    try:
        found = function(m)
    except Refused as error:
        return plain(f"refused: {error}", m)
    except Exception as error:  # transformers' exceptions, too
        said = str(error) if isinstance(error, AssertionError) else f"DIFFERS: {error!r}"
        return plain(said, m)[:300]
    if found > most:
        return f"DIFFERS by {found:.1e}"
    return "equal" + (f" ({found:.1e})" if found else "") + plain(m.note, m)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("real", type=pathlib.Path, nargs="*")
    parser.add_argument("--only", default="", help="the models whose names have this in them")
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for name, model in models(given.folder, given.real, given.only, pathlib.Path(work)):
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
