"""The networks that docs/pytorch.md lists as tried: their answers beside PyTorch's, and what is refused."""

import accrue
import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]
OF_IMAGES = ("resnext50_32x4d", "wide_resnet50_2", "mnasnet0_5", "efficientnet_v2_s", "maxvit", "swin_v2_t", "alexnet",
             "vgg11_bn", "resnet18", "convnext_small")

random = np.random.default_rng(0)
IDS = random.integers(1, 17, (2, 12))
TOKENS = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
PLACES = {"position_ids": np.broadcast_to(np.arange(2, 14), IDS.shape).copy(), "token_type_ids": np.zeros_like(IDS)}
IMAGE = {"pixel_values": random.normal(size=(2, 3, 64, 64)).astype(np.float32)}
SOUND = {"input_features": random.normal(size=(2, 8, 100)).astype(np.float32)}
LAYERS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
OF_TOKENS = LAYERS | dict(vocab_size=17, max_position_embeddings=16)
GROUPED = OF_TOKENS | dict(num_key_value_heads=2)
GPT2 = dict(vocab_size=17, n_embd=32, n_layer=2, n_head=2, n_positions=16)
T5 = dict(vocab_size=17, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
FOUR = dict(depths=[1] * 4, hidden_sizes=[8, 16, 32, 64])
# Class, configuration and its options, and what the module is asked.
TRANSFORMERS = {
    "GPT2LMHeadModel": ("GPT2Config", GPT2, TOKENS),
    "GPT2ForSequenceClassification": ("GPT2Config", GPT2 | dict(pad_token_id=0), TOKENS),
    "LlamaForCausalLM": ("LlamaConfig", GROUPED, TOKENS), "Qwen2ForCausalLM": ("Qwen2Config", GROUPED, TOKENS),
    "T5EncoderModel": ("T5Config", T5, TOKENS), "BertForMaskedLM": ("BertConfig", OF_TOKENS, TOKENS),
    "RobertaForTokenClassification": ("RobertaConfig", OF_TOKENS, TOKENS | PLACES),
    "DistilBertForSequenceClassification": (
        "DistilBertConfig", dict(vocab_size=17, dim=32, n_layers=2, n_heads=4, hidden_dim=64), TOKENS),
    "ViTForImageClassification": ("ViTConfig", LAYERS | dict(image_size=64, patch_size=16), IMAGE),
    "ConvNextForImageClassification": ("ConvNextConfig", FOUR, IMAGE),
    "SegformerForSemanticSegmentation": ("SegformerConfig", FOUR | dict(decoder_hidden_size=32), IMAGE),
    "WhisperEncoder": ("WhisperConfig", dict(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64,
                                             max_source_positions=50, num_mel_bins=8), SOUND),
}


def of_transformers(name):
    transformers = pytest.importorskip("transformers")
    config, options, x = TRANSFORMERS[name]
    made_by = transformers.models.whisper.modeling_whisper if name == "WhisperEncoder" else transformers
    torch.manual_seed(1)
    return getattr(made_by, name)(getattr(transformers, config)(**options)), x


def compare(module, x):
    network = accrue.from_torch(module.train(), x)
    found = accrue.predict(network.weights, x, network)
    if isinstance(found, dict):
        found = found.get("logits", next(iter(found.values())))
    with torch.no_grad():
        module.eval()
        expected = module(**{n: torch.tensor(a) for n, a in x.items()}) if isinstance(x, dict) else module(torch.tensor(x))
    if not isinstance(expected, torch.Tensor):
        expected = expected.logits if hasattr(expected, "logits") else expected.last_hidden_state
    difference = np.abs(found - expected.numpy()).max() / np.abs(expected.numpy()).max()
    print(f"{difference:.1e} in {network.calls} calls")
    assert difference <= 2e-5


@pytest.mark.parametrize("name", OF_IMAGES)
def test_networks_of_torchvision(name):
    torch.manual_seed(1)
    if name == "maxvit":  # the smallest of torchvision's own has 224 pixels
        module = torchvision.models.MaxVit(input_size=(64, 64), stem_channels=8, partition_size=4, block_channels=[8, 16],
                                           block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.1, num_classes=5)
    else:
        module = torchvision.models.get_model(name, num_classes=5)
    compare(module, random.normal(size=(2, 3, 64, 64)).astype(np.float32))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_networks_of_transformers(name):
    compare(*of_transformers(name))


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen2ForCausalLM", "T5EncoderModel"])
def test_norms_in_float32_are_refused_in_float64(name):
    module, x = of_transformers(name)
    with pytest.raises(accrue.Error, match="aten._to_copy"):
        accrue.from_torch(module.double(), x)


def test_roberta_by_tokens_alone_is_refused():
    module, x = of_transformers("RobertaForTokenClassification")
    with pytest.raises(accrue.Error, match="aten.gather"):
        accrue.from_torch(module, {"input_ids": x["input_ids"]})
