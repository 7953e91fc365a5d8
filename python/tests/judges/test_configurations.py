"""transformers and PEFT compute the same as the program, for each configuration that it takes."""

import copy
import dataclasses
import json
import subprocess
import sys

import accrue
import numpy as np
import pytest

torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")

pytestmark = pytest.mark.thorough

IDS = np.array([[3, 5, 7, 11, 13, 2, 4, 6]], np.int32)
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 8192}
KINDS = {"gpt2": {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2},
         "llama": SIZES, "mistral": {**SIZES, "sliding_window": None}, "qwen2": SIZES}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
# Options that transformers and the program both compute with.
TAKEN = (("gpt2", {}), ("gpt2", {"tie_word_embeddings": False}), ("gpt2", {"n_inner": 128}),
         ("gpt2", {"activation_function": "gelu_pytorch_tanh"}),
         ("gpt2", {"reorder_and_upcast_attn": True}), ("gpt2", {"attn_pdrop": 0.3}),
         ("llama", {}), ("llama", {"tie_word_embeddings": True}), ("llama", {"head_dim": 8}),
         ("llama", {"num_key_value_heads": 1}), ("llama", {"rms_norm_eps": 0.1}),
         ("llama", {"pretraining_tp": 2}), ("llama", {"rope_parameters": LLAMA3}),
         ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 3.0,
                                        "rope_theta": 100.0}}),
         ("mistral", {}), ("mistral", {"head_dim": 24, "rms_norm_eps": 1e-5}),
         ("qwen2", {}), ("qwen2", {"layer_types": ["full_attention"] * 2, "sliding_window": 3}))
# Options that transformers computes with, and that the program refuses.
REFUSED = (("gpt2", {"scale_attn_weights": False}),
           ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
           ("gpt2", {"layer_norm_epsilon": 0.1}), ("gpt2", {"activation_function": "relu"}),
           ("gpt2", {"n_inner": 64}), ("gpt2", {"add_cross_attention": True}),
           ("llama", {"hidden_act": "gelu"}), ("llama", {"attention_bias": True}),
           ("llama", {"mlp_bias": True}),
           ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0,
                                          "rope_theta": 100.0}}),
           ("mistral", {"sliding_window": 4}),
           ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}))


def program(*arguments):
    """Whether the program succeeds, and its output, without the line about a missing tokenizer."""
    done = subprocess.run([sys.executable, "-m", "accrue", *map(str, arguments)],
                          capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    return done.returncode == 0, "".join(
        line for line in lines if "which tokenizer they learned by" not in line)


def config_of(kind, options):
    tokens = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
    return transformers.CONFIG_MAPPING[kind](
        **{**KINDS[kind], **tokens, "initializer_range": 0.3, **options})


def drawn(config):
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def logits(model):
    with torch.no_grad():
        return model(torch.tensor(IDS, dtype=torch.long)).logits.numpy()


@pytest.mark.parametrize("kind, options", TAKEN)
def test_taken(kind, options, tmp_path):
    """Imported weights give transformers' logits, exported weights its files and logits."""
    model, there, weights = drawn(config_of(kind, options)), tmp_path / "there", tmp_path / "w"
    model.generation_config.update(temperature=0.5, top_p=0.9, do_sample=True, eos_token_id=[2, 3])
    model.save_pretrained(there)
    succeeded, said = program("text", "import", "--from", there, "--out", weights)
    assert succeeded and "warning" not in said, said
    # The logits' magnitude is 6 at most.
    np.testing.assert_allclose(accrue.predict(weights, IDS), logits(model), rtol=0, atol=5e-5)
    succeeded, said = program("text", "export", "--weights", weights, "--out", tmp_path / "back")
    assert succeeded, said
    for name in ("config.json", "generation_config.json"):
        files = (json.loads((folder / name).read_text()) for folder in (there, tmp_path / "back"))
        assert next(files) == next(files)
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    np.testing.assert_array_equal(logits(back), logits(model))


@pytest.mark.parametrize("kind, options", REFUSED)
def test_refused(kind, options, tmp_path):
    drawn(config_of(kind, options)).save_pretrained(tmp_path / "there")
    succeeded, said = program("text", "import", "--from", tmp_path / "there", "--out",
                              tmp_path / "w")
    name = next(iter(options))
    assert not succeeded and ("rotations are scaled" if "rope" in name else name) in said, said


@pytest.mark.parametrize("kind", (*KINDS, "generation"))
def test_keys_of_transformers(kind, tmp_path):
    """The program knows every key."""
    if kind == "generation":
        drawn(config_of("llama", {})).save_pretrained(tmp_path / "there")
        keys = set(transformers.GenerationConfig().to_dict()) - {"transformers_version"}
        (tmp_path / "there" / "generation_config.json").write_text(
            json.dumps(dict.fromkeys(keys, 1)))
    else:
        model = drawn(config_of(kind, {}))
        model.save_pretrained(tmp_path / "there")
        every = {**model.config.to_dict(), "torch_dtype": "float32"}
        # No default asks for a feature that the program lacks.
        path = tmp_path / "there" / "config.json"
        path.write_text(json.dumps({**every, **json.loads(path.read_text())}, default=str))
    succeeded, said = program("text", "import", "--from", tmp_path / "there", "--out",
                              tmp_path / "w")
    assert succeeded and "warning" not in said, said


@pytest.mark.parametrize("options", (
    {}, {"use_rslora": True}, {"init_lora_weights": "gaussian"}, {"init_lora_weights": False},
    {"init_lora_weights": "orthogonal"}, {"init_lora_weights": "pissa"},
    {"init_lora_weights": "olora"}, {"init_lora_weights": "mica"},
    {"alora_invocation_tokens": [11, 13]}, {"layer_replication": [[0, 2], [1, 2]]},
    {"trainable_token_indices": [3, 5]}, {"modules_to_save": ["lm_head"]},
    {"rank_pattern": {"q_proj": 2}}, {"alpha_pattern": {"q_proj": 2}}, {"use_dora": True},
    {"bias": "lora_only"}, {"lora_bias": True}, {"layers_to_transform": [1]},
    {"exclude_modules": ["v_proj"]}, {"target_modules": "all-linear"},
    {"target_modules": ".*q_proj"}), ids=str)
def test_adapters_of_peft(options, tmp_path):
    """PEFT's adapters give PEFT's logits, or the program refuses them and names the key."""
    peft = pytest.importorskip("peft")
    base = drawn(config_of("qwen2" if options.get("bias") else "llama", {}))
    base.save_pretrained(tmp_path / "base")
    program("text", "import", "--from", tmp_path / "base", "--out", tmp_path / "base.safetensors")
    tuned = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(**{
        "r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", **options}))
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if "lora_" in name:
                parameter.add_(0.05 * torch.randn_like(parameter))
    tuned.eval().save_pretrained(tmp_path / "adapters")
    succeeded, said = program("text", "import", "--from", tmp_path / "adapters", "--base",
                              tmp_path / "base.safetensors", "--out", tmp_path / "tuned")
    if succeeded:
        np.testing.assert_allclose(accrue.predict(tmp_path / "tuned", IDS), logits(tuned), rtol=0,
                                   atol=5e-5)
        assert np.abs(logits(tuned) - logits(base)).max() > 0.01
    else:
        assert next(iter(options)) in said, said
    assert succeeded == (options.get("init_lora_weights") in (None, "gaussian", False, "orthogonal")
                         and (not options or set(options) <= {"use_rslora", "init_lora_weights"}
                              or options == {"target_modules": "all-linear"}))


def test_keys_of_peft(tmp_path):
    """The program knows each key of LoraConfig: it refuses none as unknown."""
    peft = pytest.importorskip("peft")
    base = drawn(config_of("llama", {}))
    base.save_pretrained(tmp_path / "base")
    program("text", "import", "--from", tmp_path / "base", "--out", tmp_path / "base.safetensors")
    peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["q_proj"])).save_pretrained(
        tmp_path / "adapters")
    path = tmp_path / "adapters" / "adapter_config.json"
    config = json.loads(path.read_text())
    assert {field.name for field in dataclasses.fields(peft.LoraConfig)} - set(config) <= {
        "runtime_config"}
    for key, value in config.items():
        if value or key in ("lora_dropout", "revision"):
            continue
        path.write_text(json.dumps({**config, key: {"asked": "for"}}))
        _, said = program("text", "import", "--from", tmp_path / "adapters", "--base",
                          tmp_path / "base.safetensors", "--out", tmp_path / "tuned")
        assert "not known" not in said, said
