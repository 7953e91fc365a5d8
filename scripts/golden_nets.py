"""The golden files {mlp,cnn,resnet,unet,unet_padded}.safetensors: five small nets.

Each is trained for 10 optimizer steps (Adam with PyTorch's defaults, learning rate 1e-3) on one
window of 8 samples, cut into K = 1 and K = 4 micro-batches. The loss of a micro-batch is its mean
cross-entropy divided by K; for a unet it is the mean logistic loss of the pixels, divided by K.
Everything is computed in float64 from values that float32 holds exactly, so the files are the truth
for both types. A file holds

    input             F32  the 8 samples: [8, 20] or [8, 1, 8, 8]
    labels            I32  [8], of ten classes, or
    masks             F32  [8, 1, 8, 8], 0 or 1
    init.NAME         F32  the initial weights, NAME as in the nn.Sequential's state_dict
    grad.kK.NAME      F64  the first window's gradient
    final.kK.NAME     F64  the weights after 10 steps
    loss.kK           F64  [10], the windows' mean losses
    grad_norm.kK      F64  [10], the windows' gradient norms

for K in 1, 4.
"""

import copy
import random

import torch
from torch.nn import functional

import golden_files
from golden_files import uniform
from reference_models import UNet, cnn, mlp, resnet

SAMPLES, CLASSES, STEPS, LEARNING_RATE = 8, 10, 10, 1e-3
ACCUMULATION_STEPS = (1, 4)
# With these seeds PyTorch's float32 is within 1e-6 of float64. The tests allow 1e-5, which rounding
# alone would use up for a net at a kink of relu or with a vanishing gradient.
NETS = {
    "mlp": (lambda: mlp(20, 16, 12, CLASSES), (20,), 0),
    "cnn": (lambda: cnn(image=8, channels=(4, 6), hidden=0, classes=CLASSES), (1, 8, 8), 0),
    "resnet": (lambda: resnet(channels=(8, 8), blocks=1, classes=CLASSES), (1, 8, 8), 1),
    "unet": (lambda: UNet(channels=(8, 8)), (1, 8, 8), 1),
    "unet_padded": (lambda: UNet(channels=(8, 8)), (1, 7, 5), 0),
}
TOLERANCE = 1e-12


def make_case(net):
    """The model with its initial weights, inputs and targets, in float64."""
    build, sample_shape, seed = NETS[net]
    generator = random.Random(f"{net} {seed}")
    model = build().double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                bound = p[0].numel() ** -0.5
                p.copy_(uniform(generator, bound, *p.shape))
            elif name.endswith("bias"):
                p.copy_(uniform(generator, bound, *p.shape))
            else:  # a norm's weight
                p.copy_((1 + uniform(generator, 0.5, *p.shape)).float())
    inputs = uniform(generator, 1, SAMPLES, *sample_shape)
    if net.startswith("unet"):
        return model, inputs, (uniform(generator, 1, *inputs.shape) > 0).float()
    return model, inputs, torch.tensor([generator.randrange(CLASSES) for _ in range(SAMPLES)]).int()


def mean_loss(answer, targets):
    if targets.is_floating_point():
        return functional.binary_cross_entropy_with_logits(answer, targets.to(answer.dtype))
    return functional.cross_entropy(answer, targets.long())


def make(net):
    model, inputs, targets = make_case(net)
    tensors = {"input": inputs.float(), "masks" if net.startswith("unet") else "labels": targets,
               **golden_files.initial(model)}
    for k in ACCUMULATION_STEPS:
        trained = copy.deepcopy(model)
        optimizer = torch.optim.Adam(trained.parameters(), lr=LEARNING_RATE)
        tensors.update(golden_files.record(
            f"k{k}", trained, optimizer, lambda x, y: mean_loss(trained(x), y) / k,
            list(zip(inputs.chunk(k), targets.chunk(k))), STEPS))
    return tensors
