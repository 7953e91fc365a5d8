"""transformers writes chats by the real templates and vocabularies of models as the program does.

LLAMA_CPP names a checkout of llama.cpp, whose models/ has them; without it the test is skipped.
"""

import functools
import json
import os
import pathlib
import re
import subprocess

import pytest

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
gguf = pytest.importorskip("gguf")
pytest.importorskip("jinja2")

from test_chats import prepare  # noqa: E402

pytestmark = pytest.mark.thorough

MODELS = pathlib.Path(os.environ.get("LLAMA_CPP", "/")) / "models"
if not (MODELS / "templates").is_dir():
    pytest.skip("no LLAMA_CPP/models/templates", allow_module_level=True)

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "of a <place> & \"time\"",
    "parameters": {"type": "object", "required": ["place"],
                   "properties": {"place": {"type": "string", "description": "é ü 中"}}}}}]


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def call(arguments):
    return [{"id": "abcdefghi", "type": "function",
             "function": {"name": "weather", "arguments": arguments}}]


def tool_chat(content, arguments):
    return {"messages": [says("user", "Weather?"),
                         says("assistant", content, tool_calls=call(arguments)),
                         says("tool", "sun", name="weather", tool_call_id="abcdefghi"),
                         says("assistant", "Sun.")], "tools": TOOLS}


ASKS, ANSWERS = says("user", "Hi"), says("assistant", "Hello.")
MORE = [says("user", "And?"), says("assistant", " So  what\n")]
THINKS = says("assistant", "4", reasoning_content="two and two")
CHATS = {
    "one": {"messages": [ASKS, ANSWERS]},
    "system": {"messages": [says("system", "Be short."), ASKS, ANSWERS]},
    "turns": {"messages": [says("system", "Be short."), ASKS, ANSWERS, *MORE]},
    "turns without system": {"messages": [ASKS, ANSWERS, *MORE]},
    "ends with a question": {"messages": [ASKS, ANSWERS, says("user", "And?")]},
    "tools": tool_chat("", {"place": "Köln"}),
    "tools without content": tool_chat(None, {"place": "Köln"}),
    "arguments as text": tool_chat("", '{"place": "K"}'),
    "thoughts": {"messages": [says("user", "2+2"), THINKS]},
    "thoughts in turns": {"messages": [says("user", "2+2"), THINKS, says("user", "2+2"), THINKS]},
    "thoughts as text": {"messages": [ASKS, says("assistant", "<think>\nhm\n</think>\n\n4")]},
    "names": {"messages": [says("user", "Hi", name="Bob"), says("assistant", "Ah", name="Al")]},
    "no question": {"messages": [says("user", ""), ANSWERS]},
    "no answer": {"messages": [ASKS, says("assistant", "")]},
    "parts": {"messages": [says("user", [{"type": "text", "text": "Hi"}]),
                           says("assistant", [{"type": "text", "text": "Hello."}])]},
    "nulls": {"messages": [says("user", "Hi", name=None), {**ANSWERS, "tool_calls": None}]},
    "weight": {"messages": [ASKS, {**ANSWERS, "weight": 0}, *MORE]},
    "no thinking": {"messages": [ASKS, ANSWERS], "chat_template_kwargs": {
        "enable_thinking": False, "date_string": "26 Jul 2024"}},
    "documents": {"messages": [ASKS, ANSWERS], "documents": [{"title": "t", "text": "x"}]},
    "two answers": {"messages": [ASKS, ANSWERS, ANSWERS]},
    "no tools": {"messages": [ASKS, ANSWERS], "tools": []},
}


def learned_of(chat):
    return [i for i, m in enumerate(chat["messages"])
            if m["role"] == "assistant" and m.get("weight", 1)]


class Theirs:
    """The text that transformers writes for a chat, and the parts to be learned."""

    def __init__(self, tokenizer, chat):
        self.tokenizer, self.chat = tokenizer, chat
        self.messages = [{k: v for k, v in m.items() if k != "weight"} for m in chat["messages"]]

    def apply(self, up_to, tokenize=False, **options):
        return self.tokenizer.apply_chat_template(
            self.messages[:up_to], tools=self.chat.get("tools"),
            documents=self.chat.get("documents"), tokenize=tokenize, **options,
            **self.chat.get("chat_template_kwargs", {}))

    @property
    def text(self):
        return self.apply(None)

    def offsets(self):
        return self.tokenizer(self.text, add_special_tokens=False,
                              return_offsets_mapping=True)["offset_mapping"]

    def learned(self):
        """A 0 or 1 for each character; None if transformers cannot tell."""
        text = self.text
        found = [0] * len(text)
        if re.search(r"\{%-?\s*generation\s*-?%\}", self.tokenizer.chat_template):
            if "weight" in str(self.chat):
                return None
            mask = self.apply(None, tokenize=True, return_dict=True,
                              return_assistant_tokens_mask=True)["assistant_masks"]
            for (begin, end), is_learned in zip(self.offsets(), mask):
                if is_learned:
                    found[begin:end] = [1] * (end - begin)
            return found
        for i in learned_of(self.chat):
            before, after = self.apply(i, add_generation_prompt=True), self.apply(i + 1)
            if not text.startswith(after):
                after = after.removesuffix(self.tokenizer.eos_token)
            if not text.startswith(after) or not after.startswith(before):
                return None
            found[len(before):len(after)] = [1] * (len(after) - len(before))
        return found


def ours(template):
    """The answers to all chats of the script that the program runs."""
    script = pathlib.Path(__file__).parents[3] / "text/chat_template.py"
    lines = [{"template": template, "special_tokens": SPECIAL}]
    lines += [{"record": chat, "learned": learned_of(chat)} for chat in CHATS.values()]
    done = subprocess.run(["python3", "-c", script.read_text()], capture_output=True, text=True,
                          check=True, input="".join(json.dumps(line) + "\n" for line in lines))
    return [json.loads(line) for line in done.stdout.splitlines()]


def outcome(theirs, got):
    """The outcome in a word or two; asserts that a chat that is not refused equals theirs."""
    if "error" in got:
        try:
            text = theirs.text
        except Exception as error:
            assert str(error)[:40] in got["error"]
            return "refused by both: " + str(error)
        try:
            assert theirs.learned() is None, (text, got["error"])
        except AssertionError:
            raise
        except Exception:  # the template does not write the messages before an answer alone
            pass
        return "refused: " + got["error"]
    parts = list(zip(got["parts"][::2], got["parts"][1::2]))
    assert "".join(part for part, _ in parts) == theirs.text
    learned = theirs.learned()
    if learned is not None:
        assert [int(is_learned) for part, is_learned in parts for _ in part] == learned
    return "equal" + (", never ends" if got["endless"] else "")


def test_every_template():
    """Prints a table. No chat may differ without being refused."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.train_from_iterator([], tokenizers.trainers.BpeTrainer(
        special_tokens=list(SPECIAL.values()), show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=model, **SPECIAL)
    counts = {"equal": 0, "refused by both": 0, "refused": 0}
    for file in sorted((MODELS / "templates").glob("*.jinja")):
        tokenizer.chat_template = file.read_text()
        groups = {}
        for (name, chat), got in zip(CHATS.items(), ours(tokenizer.chat_template), strict=True):
            groups.setdefault(outcome(Theirs(tokenizer, chat), got), []).append(name)
        print("\n" + file.stem)
        for group, names in groups.items():
            print(f"    {group[:200]} ({len(names)}): {', '.join(names)}")
            counts[group.split(":")[0].split(",")[0]] += len(names)
    print(counts)
    assert counts["equal"] > counts["refused"]


INST = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{{ bos_token }}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = system_message + '\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + content + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content + eos_token}}{% endif %}{% endfor %}"""
ZEPHYR = """{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"""
# For each model: the vocabulary, the template, the token that ends a turn, and the chats that the
# template writes and whose first messages alone give a beginning of the whole text.
PLAIN = ["one", "system", "turns", "turns without system", "ends with a question", "weight",
         "no question"]
REAL = {
    "qwen2.5": ("qwen2", "Qwen-Qwen2.5-7B-Instruct", "<|im_end|>", [*PLAIN, "tools", "nulls"]),
    "qwen3": ("qwen2", "Qwen-Qwen3-0.6B", "<|im_end|>",
              ["one", "system", "thoughts", "no thinking"]),
    "llama3.2": ("llama-bpe", "meta-llama-Llama-3.2-3B-Instruct", "<|eot_id|>",
                 [*PLAIN, "tools", "no tools", "no thinking"]),
    "phi3.5": ("phi-3", "microsoft-Phi-3.5-mini-instruct", "<|endoftext|>", PLAIN),
    "mistral": ("llama-spm", INST, "</s>", PLAIN),
    "zephyr": ("llama-spm", ZEPHYR, "</s>", PLAIN)}


def with_template(vocabulary, template, end, out):
    """The GGUF file of a vocabulary with a template, and another end of a text."""
    reader = gguf.GGUFReader(MODELS / f"ggml-vocab-{vocabulary}.gguf")
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    writer = gguf.GGUFWriter(out, reader.get_field("general.architecture").contents())
    own = {"tokenizer.chat_template": template,
           "tokenizer.ggml.eos_token_id": tokens.index(end)}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in own or name == "general.architecture":
            continue
        inner = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    writer.add_chat_template(template)
    writer.add_eos_token_id(own["tokenizer.ggml.eos_token_id"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@functools.cache
def tokenizer_of(vocabulary):
    name = f"ggml-vocab-{vocabulary}.gguf"
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS, gguf_file=name)
    if vocabulary == "llama-spm":  # like llama.cpp: a space after special tokens
        tokenizer._tokenizer.pre_tokenizer = None
        tokenizer._tokenizer.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")])
    return tokenizer


@pytest.mark.parametrize("model", REAL)
def test_real_vocabulary(model, tmp_path):
    vocabulary, template, end, names = REAL[model]
    known = MODELS / f"templates/{template}.jinja"
    template = known.read_text() if len(template) < 60 and known.exists() else template
    tokenizer = tokenizer_of(vocabulary)
    tokenizer.chat_template, tokenizer.eos_token = template, end
    if "-" in vocabulary and "bpe" not in vocabulary:  # SentencePiece's
        file = tmp_path / "vocabulary.gguf"
        with_template(vocabulary, template, end, file)
    else:
        file = tmp_path / "vocabulary"
        tokenizer.save_pretrained(file)
    chats = [CHATS[name] for name in names]
    for name, chat, (tokens, learned) in zip(names, chats, prepare(chats, file, tmp_path)):
        theirs = Theirs(tokenizer, chat)
        ids = theirs.apply(None, tokenize=True)
        assert tokens == list(ids if isinstance(ids, list) else ids["input_ids"]), name
        by_character = theirs.learned()
        assert learned == [int(any(by_character[begin:end])) for begin, end in theirs.offsets()], name
        assert any(learned)
