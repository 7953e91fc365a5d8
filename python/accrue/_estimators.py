"""Estimators for scikit-learn's pipelines and searches. Nothing imports this before it is asked for."""

from __future__ import annotations

import inspect
import numbers
import typing

import numpy

import accrue

from . import _names

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("accrue.Classifier and accrue.Regressor are estimators of scikit-learn 1.6 or newer: "
                      "expected pip install scikit-learn") from error

if typing.TYPE_CHECKING:
    from ._typing import Model

    _Model = typing.Union[typing.Callable[[tuple[int, ...], int], typing.Any], Model, None]


class _Network(BaseEstimator):
    """The network of an estimator, its training and its answers."""

    n_features_in_: int
    n_iter_: int
    weights_: accrue.Weights
    network_: typing.Any
    history_: accrue.History

    if not typing.TYPE_CHECKING:  # the types of __init__ count

        def __new__(cls, *args, **options):
            known = inspect.signature(cls.__init__).parameters
            for name in options:
                if name not in known:
                    raise TypeError(_names.lacking_in_estimator(cls.__name__, name, known))
            return super().__new__(cls)

        def __init_subclass__(cls, **options):
            super().__init_subclass__(**options)
            signature = inspect.signature(cls.__init__)
            cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __init__(self, model: _Model = None, *, hidden_layer_sizes: typing.Sequence[int] = (100,),
                 activation: str = "relu", epochs: int = 200, lr: float = 1e-3, effective_batch: int = 64,
                 micro_batch: int | str | None = None, optimizer: str = "adam",
                 weight_decay: float | None = None, validation_fraction: float | None = None,
                 patience: int | None = None, random_state: typing.Any = None,
                 options: dict[str, typing.Any] | None = None):
        self.model = model
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.epochs = epochs
        self.lr = lr
        self.effective_batch = effective_batch
        self.micro_batch = micro_batch
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.options = options

    def _learned(self, X: typing.Any, y: typing.Any, **checks: typing.Any) -> tuple:
        """X and y of a fit, checked."""
        x, y = validate_data(self, X, y, allow_nd=True, dtype=None, **checks)
        return self._numbers(x), y

    def _numbers(self, x: numpy.ndarray) -> numpy.ndarray:
        """Bytes of images stay as they are, other numbers become floats."""
        if not (x.dtype == numpy.uint8 and x.ndim > 2):
            x = x.astype(numpy.float64 if self._is_double() else numpy.float32, copy=False)
            if not numpy.isfinite(x).all():
                raise ValueError("Input X has numbers beyond float32: expected precision='fp64' in options")
        return numpy.ascontiguousarray(x)

    def _is_double(self) -> bool:
        return (self.options or {}).get("precision") == "fp64"

    def _network_for(self, x: numpy.ndarray, outputs: int) -> typing.Any:
        """The network: `model`, or what this function makes, or a perceptron."""
        if self.model is not None:
            is_maker = callable(self.model) and not isinstance(self.model, accrue.Layer) and not hasattr(
                self.model, "state_dict")
            return self.model(x.shape[1:], outputs) if is_maker else self.model
        sizes = [int(numpy.prod(x.shape[1:])), *numpy.atleast_1d(self.hidden_layer_sizes).tolist()]
        layers = [accrue.Flatten()] if x.ndim > 2 else []
        layers += [accrue.Linear(a, b, activation=self.activation) for a, b in zip(sizes, sizes[1:])]
        return accrue.Sequential(*layers, accrue.Linear(sizes[-1], outputs))

    def _train(self, x: numpy.ndarray, y: numpy.ndarray, outputs: int, sample_weight: typing.Any,
               options: dict[str, typing.Any]) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}: expected 1 or more")
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31))
        self.network_ = self._network_for(x, outputs)
        validation = None
        if self.validation_fraction is not None:
            if not 0 < self.validation_fraction < 1:
                raise ValueError(f"validation_fraction is {self.validation_fraction}: expected more than 0 and less "
                                 "than 1, or None")
            order = random.permutation(len(x))
            held = max(1, round(self.validation_fraction * len(x)))
            if held >= len(x):
                raise ValueError(f"validation_fraction={self.validation_fraction} of {len(x)} samples leaves none "
                                 "to train on: expected a smaller one")
            validation, rest = (x[order[:held]], y[order[:held]]), numpy.sort(order[held:])
            x, y = x[rest], y[rest]
            sample_weight = None if sample_weight is None else sample_weight[rest]
        window = min(self.effective_batch, len(x))
        micro = window if self.micro_batch is None else self.micro_batch
        if isinstance(micro, numbers.Integral):
            micro = min(micro, window)
        options = {"progress": False, **options, **(self.options or {})}
        result = accrue.train(
            self.network_, (x, y), validation=validation, sample_weight=sample_weight, epochs=self.epochs,
            lr=self.lr, effective_batch=window, micro_batch=micro, optimizer=self.optimizer,
            weight_decay=self.weight_decay, patience=self.patience, seed=seed, **options)
        self.weights_ = result.weights
        self.history_ = result.history
        self.n_iter_ = int(result.history["epoch"][-1]) + 1

    def _answers(self, X: typing.Any) -> numpy.ndarray:
        check_is_fitted(self)
        x = self._numbers(validate_data(self, X, reset=False, allow_nd=True, dtype=None))
        known = {"device", "threads", "memory_limit", "precision"}
        options = {name: value for name, value in (self.options or {}).items() if name in known}
        if x.ndim == 2 and not options.keys() & {"device", "precision"}:
            # In float32 the answer to a row depends, in its last bits, on how many rows are asked for.
            options.update(device="cpu", precision="fp64")
        return accrue.predict(self.weights_, x, self.network_, **options)


class Classifier(ClassifierMixin, _Network):
    """A network that tells classes apart, as a scikit-learn estimator.

    Parameters
    ----------
    model : str, path, Layer, torch.nn.Module or callable, optional
        A function is called with the shape of a sample and the number of classes, and returns a
        network. None is a perceptron with layers of `hidden_layer_sizes` and `activation`.
    hidden_layer_sizes : sequence of int
        The sizes of its hidden layers.
    activation : {'relu', 'tanh', 'none'}
        What follows each of them.
    epochs : int
        How often all samples are learned.
    lr : float
        The learning rate.
    effective_batch : int
        Samples in a step of the optimizer.
    micro_batch : int or 'auto', optional
        Samples that are in memory at once. By default a window is one micro-batch.
    optimizer : {'adam', 'adamw', 'lion', 'sgd'}
        The optimizer.
    weight_decay : float, optional
        As train() has it.
    validation_fraction : float, optional
        The share of the samples that are held out and scored after each epoch.
    patience : int, optional
        As train() has it.
    random_state : int or RandomState, optional
        Decides weights, order and dropout.
    options : dict, optional
        More arguments of train().
    class_weight : dict or 'balanced', optional
        How much the samples of each class count.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    n_features_in_ : int
        The number of columns of X.
    n_iter_ : int
        The epochs that were run.
    weights_ : Weights
        What was learned.
    network_ : Layer
        The network.
    history_ : History
        The course of the training.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(64, 3))
    >>> accrue.Classifier(epochs=20, lr=0.05).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.9
    True
    """

    classes_: numpy.ndarray

    def __init__(self, model: _Model = None, *, hidden_layer_sizes: typing.Sequence[int] = (100,),
                 activation: str = "relu", epochs: int = 200, lr: float = 1e-3, effective_batch: int = 64,
                 micro_batch: int | str | None = None, optimizer: str = "adam",
                 weight_decay: float | None = None, validation_fraction: float | None = None,
                 patience: int | None = None, random_state: typing.Any = None,
                 options: dict[str, typing.Any] | None = None, class_weight: typing.Any = None):
        super().__init__(model, hidden_layer_sizes=hidden_layer_sizes, activation=activation, epochs=epochs, lr=lr,
                         effective_batch=effective_batch, micro_batch=micro_batch, optimizer=optimizer,
                         weight_decay=weight_decay, validation_fraction=validation_fraction, patience=patience,
                         random_state=random_state, options=options)
        self.class_weight = class_weight

    def fit(self, X: typing.Any, y: typing.Any, sample_weight: typing.Any = None) -> Classifier:
        """Trains on samples and their labels.

        Parameters
        ----------
        X : array_like [N, ...]
            The samples.
        y : array_like [N]
            The labels.
        sample_weight : array_like [N], optional
            How much each sample counts.

        Returns
        -------
        Classifier
            The estimator itself.
        """
        x, labels = self._learned(X, y)
        labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        self.classes_, places = numpy.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: expected two classes or more")
        if "class_weight" in (self.options or {}):  # train() would take the places of labels for the labels
            raise ValueError("options has class_weight: expected it as an argument of the estimator")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, x)
        if self.class_weight is not None:
            of_classes = compute_sample_weight(self.class_weight, labels)
            weights = of_classes if weights is None else weights * of_classes
        self._train(x, places.astype(numpy.int32), len(self.classes_), weights, {})
        return self

    def predict_proba(self, X: typing.Any) -> numpy.ndarray:
        """Answers with the probability of each of `classes_`.

        Parameters
        ----------
        X : array_like [N, ...]
            The samples.

        Returns
        -------
        ndarray [N, K]
            Float64, rows of sum 1.
        """
        logits = self._logits(X).astype(numpy.float64)
        powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, X: typing.Any) -> numpy.ndarray:
        """Answers with the likeliest class of each sample.

        Parameters
        ----------
        X : array_like [N, ...]
            The samples.

        Returns
        -------
        ndarray [N]
            Of `classes_`.
        """
        logits = self._logits(X)  # refuses what is not fitted, which has no classes_
        return self.classes_[logits.argmax(axis=1)]

    def _logits(self, X: typing.Any) -> numpy.ndarray:
        answers = self._answers(X)
        if answers.shape != (len(answers), len(self.classes_)):
            raise ValueError(f"the network answers with {list(answers.shape)}, but there are {len(self.classes_)} "
                             f"classes: expected a model of {len(self.classes_)} outputs, or a function that makes it")
        return answers


class Regressor(RegressorMixin, _Network):
    """A network that answers with numbers, as a scikit-learn estimator.

    Its loss is the mean squared error, or what options={"loss": ...} says.

    Parameters
    ----------
    model : str, path, Layer, torch.nn.Module or callable, optional
        A function is called with the shape of a sample and the number of answers, and returns a
        network. None is a perceptron with layers of `hidden_layer_sizes` and `activation`.
    hidden_layer_sizes : sequence of int
        The sizes of its hidden layers.
    activation : {'relu', 'tanh', 'none'}
        What follows each of them.
    epochs : int
        How often all samples are learned.
    lr : float
        The learning rate.
    effective_batch : int
        Samples in a step of the optimizer.
    micro_batch : int or 'auto', optional
        Samples that are in memory at once. By default a window is one micro-batch.
    optimizer : {'adam', 'adamw', 'lion', 'sgd'}
        The optimizer.
    weight_decay : float, optional
        As train() has it.
    validation_fraction : float, optional
        The share of the samples that are held out and scored after each epoch.
    patience : int, optional
        As train() has it.
    random_state : int or RandomState, optional
        Decides weights, order and dropout.
    options : dict, optional
        More arguments of train().

    Attributes
    ----------
    n_features_in_ : int
        The number of columns of X.
    n_iter_ : int
        The epochs that were run.
    weights_ : Weights
        What was learned.
    network_ : Layer
        The network.
    history_ : History
        The course of the training.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(64, 3))
    >>> accrue.Regressor(epochs=50, lr=0.02).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9
    True
    """

    def __sklearn_tags__(self) -> typing.Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: typing.Any, y: typing.Any, sample_weight: typing.Any = None) -> Regressor:
        """Trains on samples and their numbers.

        Parameters
        ----------
        X : array_like [N, ...]
            The samples.
        y : array_like [N] or [N, K]
            The numbers.
        sample_weight : array_like [N], optional
            How much each sample counts.

        Returns
        -------
        Regressor
            The estimator itself.
        """
        x, targets = self._learned(X, y, multi_output=True, y_numeric=True)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        targets = targets.astype(x.dtype if x.dtype.kind == "f" else numpy.float32)
        self._is_of_one = targets.ndim == 1
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, x)
        self._train(x, numpy.ascontiguousarray(targets), 1 if targets.ndim == 1 else targets.shape[1], weights,
                    {"loss": "mse"})
        return self

    def predict(self, X: typing.Any) -> numpy.ndarray:
        """Answers with numbers.

        Parameters
        ----------
        X : array_like [N, ...]
            The samples.

        Returns
        -------
        ndarray [N] or [N, K]
            Float64, of as many dimensions as y had.
        """
        answers = self._answers(X).astype(numpy.float64, copy=False)
        return answers.reshape(len(answers)) if self._is_of_one else answers


Classifier.__module__ = Regressor.__module__ = "accrue"
