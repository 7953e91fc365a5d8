"""PyPI's gguf and transformers read the GGUF files that the program writes."""

import json
import subprocess
import sys

import accrue
import numpy as np
import pytest

torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
gguf, tokenizers = pytest.importorskip("gguf"), pytest.importorskip("tokenizers")

pytestmark = pytest.mark.thorough

IDS = np.array([[3, 5, 7, 11, 13, 2, 4, 6]], np.int32)
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192,
         "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": 0}
MODELS = (("llama", {}), ("llama", {"tie_word_embeddings": True}), ("qwen2", {}))
TYPES = {"F32": 0, "F16": 1, "Q8_0": 8, "Q4_0": 2}
TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}{% endfor %}"


def program(*arguments):
    done = subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def save_tokenizer(directory):
    """Splits a text as SmolLM does; its pieces are learned from two words."""
    one = tokenizers.Tokenizer(tokenizers.models.BPE())
    before = tokenizers.pre_tokenizers
    one.pre_tokenizer = before.Sequence([before.Digits(individual_digits=True),
                                         before.ByteLevel(add_prefix_space=False)])
    one.decoder = tokenizers.decoders.ByteLevel()
    one.train_from_iterator(["gguf files", "files"], tokenizers.trainers.BpeTrainer(
        vocab_size=264, special_tokens=["<|end|>", "<s>"],
        initial_alphabet=before.ByteLevel.alphabet()))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=one, eos_token="<|end|>", bos_token="<s>",
        chat_template=TEMPLATE).save_pretrained(directory, save_jinja_files=False)
    return one


@pytest.mark.parametrize("kind, options", MODELS)
def test_model(kind, options, tmp_path):
    there, weights = tmp_path / "there", tmp_path / "w"
    there.mkdir()
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[kind](**{**SIZES, "vocab_size": 266, **options})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # one-dimensional parameters begin as 0 or 1
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(1, 0.2)
    model.save_pretrained(there)
    tokenizer = save_tokenizer(there)
    program("text", "import", "--from", there, "--out", weights)
    for name, number in TYPES.items():
        file = tmp_path / f"{name}.gguf"
        program("text", "export", "--weights", weights, "--tokenizer", there, "--gguf-type", name,
                "--out", file)
        tensors = {t.name: t for t in gguf.GGUFReader(file).tensors}
        assert tensors["blk.1.ffn_down.weight"].tensor_type == number
        # The package quantizes to the same bytes, in the file's order of rows.
        down = model.state_dict()["model.layers.1.mlp.down_proj.weight"].numpy()
        expected = gguf.quants.quantize(down, gguf.GGMLQuantizationType(number))
        assert tensors["blk.1.ffn_down.weight"].data.tobytes() == expected.tobytes()
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path, gguf_file=file.name, dtype=torch.float32).eval()
        with torch.no_grad():
            logits = theirs(torch.tensor(IDS, dtype=torch.long)).logits.numpy()
        program("text", "import", "--from", file, "--out", tmp_path / "back")
        ours = accrue.predict(tmp_path / "back", IDS)
        np.testing.assert_allclose(ours, logits, rtol=0, atol=1e-5 * np.abs(logits).max())
        if name == "F32":
            with torch.no_grad():
                first = model(torch.tensor(IDS, dtype=torch.long)).logits.numpy()
            np.testing.assert_allclose(ours, first, rtol=0, atol=1e-5 * np.abs(first).max())
    fields = gguf.GGUFReader(tmp_path / "F32.gguf").fields
    assert fields["tokenizer.chat_template"].contents() == TEMPLATE
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    assert fields["tokenizer.ggml.bos_token_id"].contents() == 1
    tokens = fields["tokenizer.ggml.tokens"].contents()
    assert len(tokens) == 266
    assert tokens[:tokenizer.get_vocab_size()] == [
        tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    # The tokenizer that transformers makes of the file.
    again = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="F32.gguf")
    text = "files of gguf: 1234"
    assert again(text, add_special_tokens=False).input_ids == tokenizer.encode(text).ids


def permuted(rows, heads):
    """LlamaModel.permute() of llama.cpp's convert_hf_to_gguf.py."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(
        1, 2).reshape(rows.shape)


def test_adapters(tmp_path):
    """Adapters, merged and apart, by the definitions of llama.cpp and PEFT."""
    peft = pytest.importorskip("peft")
    there, weights, tuned = tmp_path / "there", tmp_path / "w", tmp_path / "tuned"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**SIZES, "vocab_size": 266})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(there)
    save_tokenizer(there)
    program("text", "import", "--from", there, "--out", weights)
    base = tmp_path / "base.gguf"
    program("text", "export", "--weights", weights, "--tokenizer", there, "--gguf-type", "Q8_0",
            "--out", base)
    rows = np.random.default_rng(0).integers(0, 266, size=(4, 12))
    trained = accrue.train(base, rows, lora=2, lora_alpha=6, lora_targets="all",
                           lora_rs="yes", lr=0.1, steps=3, epochs=3, micro_batch=2,
                           effective_batch=4)
    trained.weights.save(tuned)
    # The model that transformers makes of the base, with PEFT's adapters.
    program("text", "export", "--adapter", "--base", there, "--weights", tuned, "--out",
            tmp_path / "peft")
    below = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=base.name, dtype=torch.float32)
    adapted = peft.PeftModel.from_pretrained(below, tmp_path / "peft").eval()
    auto = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "peft")
    assert auto.peft_config["default"].base_model_name_or_path == str(there)
    program("text", "export", "--weights", tuned, "--gguf-type", "F32", "--out",
            tmp_path / "merged.gguf")
    merged = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="merged.gguf", dtype=torch.float32).eval()
    with torch.no_grad():
        expected = adapted(torch.tensor(IDS, dtype=torch.long)).logits.numpy()
        logits = merged(torch.tensor(IDS, dtype=torch.long)).logits.numpy()
    np.testing.assert_allclose(logits, expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    np.testing.assert_allclose(accrue.predict(tuned, IDS), expected, rtol=0,
                               atol=2e-5 * np.abs(expected).max())
    # The file is as convert_lora_to_gguf.py would write it from PEFT's.
    program("text", "export", "--adapter", "--weights", tuned, "--out", tmp_path / "lora.gguf")
    reader = gguf.GGUFReader(tmp_path / "lora.gguf")
    fields = {key: reader.fields[key].contents() for key in reader.fields if "." in key[1:]}
    assert fields["general.type"] == "adapter" and fields["adapter.type"] == "lora"
    assert fields["general.architecture"] == "llama"
    assert fields["adapter.lora.alpha"] == pytest.approx(6 * 2 ** 0.5)  # llama.cpp divides by 2
    there_names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    from safetensors.numpy import load_file
    of_peft = load_file(tmp_path / "peft" / "adapter_model.safetensors")
    tensors = {t.name: t.data for t in reader.tensors}
    assert len(tensors) == len(of_peft) == 28
    for name, value in of_peft.items():
        inner = name.removeprefix("base_model.model.").rsplit(".", 2)[0]
        end = "lora_a" if "lora_A" in name else "lora_b"
        if end == "lora_b" and ("q_proj" in name or "k_proj" in name):
            value = permuted(value, 4 if "q_proj" in name else 2)
        there_name = there_names.get_name(inner + ".weight", try_suffixes=(".weight",))
        np.testing.assert_array_equal(tensors[f"{there_name}.{end}"], value)
