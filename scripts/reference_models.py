"""accrue's networks in PyTorch: the same layers in the same order, so with the same names."""

from torch import nn

CNN_CHANNELS = (16, 32)
CNN_HIDDEN = 128


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(image=28, channels=CNN_CHANNELS, hidden=CNN_HIDDEN, classes=10):
    """Of square images with one channel; hidden 0 leaves out the hidden linear layer."""
    layers, inputs = [], 1
    for outputs in channels:
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
        inputs, image = outputs, image // 2
    features = inputs * image * image
    layers.append(nn.Flatten())
    if hidden:
        layers += [nn.Linear(features, hidden), nn.ReLU()]
        features = hidden
    return nn.Sequential(*layers, nn.Linear(features, classes))


MODELS = {
    "mlp": lambda: mlp(784, 512, 256, 128, 10),
    "mlp-small": lambda: mlp(784, 256, 10),
    "cnn": cnn,
}
# What one sample looks like to the model.
SAMPLE_SHAPES = {"mlp": (784,), "mlp-small": (784,), "cnn": (1, 28, 28)}
