"""What the makers of golden files share: values that every version of PyTorch draws alike, training
that is written down, safetensors files with torch alone, and comparisons.

The format of a file: 8 bytes, the length of the header, little-endian; the header, JSON that gives
each tensor's dtype, shape and place among the data; the data, row-major and little-endian, without
gaps. https://huggingface.co/docs/safetensors
"""

import json
import pathlib

import torch

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32}


def uniform(generator, bound, *shape):
    """Uniform in (-bound, bound), float64, of values that float32 holds."""
    count = torch.Size(shape).numel()
    values = torch.tensor([generator.uniform(-bound, bound) for _ in range(count)])
    return values.float().double().reshape(shape)


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def train(model, optimizer, loss_of, micro_batches, steps):
    """Takes steps on one window, whose loss is the sum of loss_of(*micro_batch). Returns the first
    gradient by name, and loss and gradient norm of each step."""
    first_gradient, losses, norms = None, [], []
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for micro_batch in micro_batches:
            loss = loss_of(*micro_batch)
            loss.backward()
            total += loss.item()
        gradient = {name: p.grad.clone() for name, p in model.named_parameters()
                    if p.requires_grad}
        first_gradient = first_gradient or gradient
        losses.append(total)
        norms.append(flat(gradient.values()).norm().item())
        optimizer.step()
    losses, norms = (torch.tensor(each, dtype=torch.float64) for each in (losses, norms))
    return first_gradient, losses, norms


def record(case, model, trained):
    """The tensors of a file for what train() returned."""
    gradient, losses, norms = trained
    return {**{f"grad.{case}.{name}": g for name, g in gradient.items()},
            **{f"final.{case}.{name}": p for name, p in model.state_dict().items()},
            f"loss.{case}": losses, f"grad_norm.{case}": norms}


def relative_error(actual, truth):
    """The largest difference, relative to the largest value of each tensor."""
    return max(((actual[name].double() - value).abs().max() / value.abs().max()).item()
               for name, value in truth.items())


def read(name):
    """The tensors of a golden file, by name."""
    content = (FOLDER / f"{name}.safetensors").read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:data])
    header.pop("__metadata__")
    tensors = {}
    for key, entry in header.items():
        begin, end = (data + at for at in entry["data_offsets"])
        values = torch.frombuffer(bytearray(content[begin:end]), dtype=DTYPES[entry["dtype"]])
        tensors[key] = values.reshape(entry["shape"])
    return tensors


def write(name, tensors, **metadata):
    header = {"__metadata__": {"written_by": "scripts/golden.py", "torch": torch.__version__,
                               **metadata}}
    names, data = {dtype: name for name, dtype in DTYPES.items()}, b""
    for key, tensor in tensors.items():
        begin = len(data)
        data += bytes(tensor.detach().flatten().contiguous().view(torch.uint8).tolist())
        header[key] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                       "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data is aligned
    path = FOLDER / f"{name}.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    print(f"wrote {path}, {path.stat().st_size} bytes")


def require_names(name, stored, tensors):
    if list(stored) != list(tensors):
        raise SystemExit(f"{name}: other names than {list(tensors)}")


def agrees(name, tensors, tolerance):
    """Whether a golden file holds these tensors."""
    stored = read(name)
    require_names(name, stored, tensors)
    error = relative_error(stored, {key: value.double() for key, value in tensors.items()})
    print(f"{name}: within {error:.1e} of PyTorch {torch.__version__}")
    return error <= tolerance
