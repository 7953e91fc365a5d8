"""accrue.Classifier and accrue.Regressor in scikit-learn."""

import pickle

import numpy as np
import pytest

import accrue

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import make_classification, make_regression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.class_weight import compute_class_weight  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

OPTIONS = {"epochs": 40, "lr": 1e-2, "options": {"threads": 1}}


@pytest.mark.parametrize("estimator", [accrue.Classifier(**OPTIONS), accrue.Regressor(**OPTIONS)])
def test_passes_the_checks_of_estimators(estimator):
    found = check_estimator(estimator, on_fail=None)
    failed = {check["check_name"] for check in found if check["status"] == "failed"}
    # A sample of weight 2 is in one window, and two samples are in two, as in MLPClassifier.
    assert failed <= {"check_sample_weight_equivalence_on_dense_data"}
    assert len(found) > 50


def test_searches_in_pipelines():
    X, y = make_classification(200, 10, n_informative=6, n_classes=3, random_state=0)
    y = np.array(["a", "b", "c"])[y]
    pipeline = make_pipeline(StandardScaler(), accrue.Classifier(random_state=0, **OPTIONS))
    search = GridSearchCV(pipeline, {"classifier__hidden_layer_sizes": [(1,), (32,)]}, cv=3).fit(X, y)
    assert search.best_params_ == {"classifier__hidden_layer_sizes": (32,)}
    assert search.best_score_ > 0.6
    found = pickle.loads(pickle.dumps(search)).predict_proba(X)
    np.testing.assert_array_equal(found, search.predict_proba(X))
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_has_class_weight_as_its_own_argument():
    for labels in ([1, 2, 1, 2], ["a", "b", "a", "b"]):
        with pytest.raises(ValueError, match="options has class_weight"):
            accrue.Classifier(options={"class_weight": {1: 2.0}}).fit(np.eye(4), labels)


def test_takes_networks_and_weights():
    X, y = make_regression(200, 5, noise=1, random_state=0)
    X, y = X.astype(np.float32), (y / y.std()).astype(np.float32)
    network = accrue.Sequential(accrue.Linear(5, 16, activation="tanh"), accrue.Linear(16, 1))
    options = {"random_state": 3, "validation_fraction": 0.2, **OPTIONS}
    fitted = accrue.Regressor(network, **options).fit(X, y)
    assert fitted.score(X, y) > 0.95
    assert np.isfinite(fitted.history_["val_loss"]).sum() == fitted.n_iter_ == 40
    made = clone(fitted).set_params(model=lambda shape, outputs: network).fit(X, y)
    np.testing.assert_array_equal(made.predict(X), fitted.predict(X))
    labels = (y > 0.5).astype(int)
    weights = compute_class_weight("balanced", classes=np.arange(2), y=labels)
    plain, balanced, weighted = (accrue.Classifier(class_weight=weight, random_state=0, **OPTIONS).fit(X, labels)
                                 .predict_proba(X) for weight in (None, "balanced", dict(enumerate(weights))))
    assert weights[1] > 1 > weights[0] and balanced[:, 1].mean() > plain[:, 1].mean()
    np.testing.assert_allclose(balanced, weighted, rtol=0, atol=1e-6)
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), np.uint8)
    kinds = (images[:, 0, 0] > 127).astype(int)
    of_images = accrue.Classifier("cnn", epochs=1, micro_batch=8, options={"width": 0.25, "threads": 1})
    assert of_images.fit(images, kinds).predict(images).shape == (40,)


@pytest.mark.parametrize(("more", "text"), [
    ({"epochs": 0}, "epochs is 0"), ({"validation_fraction": 0.0}, "validation_fraction is 0"),
    ({"validation_fraction": -0.5}, "validation_fraction is -0.5"),
    ({"model": accrue.Sequential(accrue.Linear(6, 5))}, "there are 3 classes")])
def test_refuses_what_has_no_effect(more, text):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 6)), random.integers(0, 3, 60)
    with pytest.raises(ValueError, match=text):
        accrue.Classifier(**{"epochs": 1, **more}).fit(X, y).predict_proba(X)
