"""The golden files of the C++ tests hold what PyTorch and others compute (scripts/golden.py)."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import golden
import golden_files
import golden_zi2zi
from safetensors.torch import load_file

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("name", golden.NAMES)
def test_file(name):
    try:
        module, tensors = golden.module_of(name), golden.make(name)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    stored = load_file(golden.FOLDER / f"{name}.safetensors")
    assert set(stored) == set(tensors)
    relative_error = getattr(module, "relative_error", golden_files.relative_error)
    assert relative_error(stored, tensors) <= module.TOLERANCE


@pytest.mark.parametrize("sizes", ((1,) * 8, (2,) * 4, (3, 3, 2)), ids=str)
def test_zi2zi_in_micro_batches(sizes):
    """Batch norm sees the micro-batch, so no split gives the results of the whole window."""
    for name, configuration in golden_zi2zi.CONFIGURATIONS.items():
        if configuration["norm"] != "batch":
            whole, split = ({f"{name}.{key}": value for key, value in
                             golden_zi2zi.train(configuration, each).items()}
                            for each in (golden_zi2zi.SAMPLES, list(sizes)))
            assert golden_zi2zi.relative_error(split, whole) <= golden_zi2zi.TOLERANCE


def test_pairs_by_sentence_transformers():
    """sentence-transformers has the same loss for the same embeddings."""
    losses = pytest.importorskip("sentence_transformers.losses", exc_type=ImportError)
    pairs, text = golden.module_of("pairs"), golden.module_of("text")
    loss = losses.MultipleNegativesRankingLoss(model=None, scale=pairs.SCALE)
    stored = load_file(golden.FOLDER / "pairs.safetensors")
    for name, model in text.models():
        text.draw(name, model)
        columns = [pairs.embeddings(model, list(column)) for column in zip(*pairs.texts_of(name))]
        theirs = loss.compute_loss_from_embeddings(columns, None).item()
        assert abs(theirs - stored[f"loss.{name}"][0].item()) <= 1e-12
