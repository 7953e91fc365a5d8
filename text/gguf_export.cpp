#include "text/gguf_export.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/quantize.h"
#include "kernels/quantized_matmul.h"
#include "text/gguf_model.h"
#include "text/pretrained.h"
#include "train/weights.h"

namespace accrue {
namespace {

std::string architecture_of(const TextModelOptions& model) {
  const auto* const llama = std::get_if<LlamaOptions>(&model);
  if (!llama) return "gpt2";
  return llama->has_bias ? "qwen2" : "llama";
}

int64_t head_size_of(const LlamaOptions& o) {
  return o.head_size > 0 ? o.head_size : o.width / o.heads;
}

// The layout of a parameter in a file. `half_head` is D / 2 if the rows are reordered
// (text/gguf_model.h), otherwise 0. `is_transposed` is true if the columns of the matrix here are
// the rows in the file, as for GPT-2's weights [in, out].
struct StoredOrder {
  int64_t half_head = 0;
  bool is_transposed = false;
};

StoredOrder stored_order(const TextModelOptions& model, const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  const auto* const llama = std::get_if<LlamaOptions>(&model);
  if (!llama) return {.is_transposed = name.ends_with(".weight") && has(".c_")};
  const bool is_turned = !llama->has_bias && (has(".q_proj.") || has(".k_proj."));
  return {.half_head = is_turned ? head_size_of(*llama) / 2 : 0};
}

Shape stored_shape(const Shape& shape, StoredOrder order) {
  return order.is_transposed ? Shape{shape[1], shape[0]} : shape;
}

Tensor transposed(const Tensor& x) {
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  const Tensor result =
      Tensor::empty({columns, rows}, DType::f32, Device::cpu, Category::parameters);
  const auto from = x.span<float>(), to = result.span<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
  return result;
}

template <class T>
void round_to(std::span<std::byte> to, std::span<const float> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    const T rounded(row[i]);
    check(std::isfinite(static_cast<float>(rounded)),
          "{} is too large for {}: expected f32 or bf16", row[i], name(dtype_of<T>()));
    std::memcpy(to.data() + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

void encode(std::span<std::byte> to, std::span<const float> row, DType type) {
  if (type == DType::f32) std::memcpy(to.data(), row.data(), to.size());
  else if (type == DType::f16) round_to<Half>(to, row);
  else if (type == DType::bf16) round_to<BFloat16>(to, row);
  else quantize(to, row, type);
}

bool is_encoded(DType type) {
  constexpr std::array types{DType::f32,  DType::f16,  DType::bf16,
                             DType::q4_0, DType::q4_1, DType::q8_0};
  return std::ranges::find(types, type) != types.end();
}

// Adds a parameter in the layout of the file.
void add_tensor(GgufWriter& file, const std::string& name, const Tensor& x, DType type,
                StoredOrder order) {
  const Shape shape = stored_shape(x.shape(), order);
  file.tensor(name, shape, type, [x, shape, type, order, name](std::span<std::byte> to) {
    const Tensor wide = order.is_transposed ? transposed(as_f32(x)) : as_f32(x);
    const auto columns = static_cast<size_t>(shape[-1]);
    const size_t row_bytes = bytes_of(type, shape[-1]);
    const auto elements = wide.span<float>();
    for (size_t row = 0; row * columns < elements.size(); ++row) {
      const auto there =
          static_cast<size_t>(stored_row(static_cast<int64_t>(row), order.half_head));
      try {
        encode(to.subspan(there * row_bytes, row_bytes), elements.subspan(row * columns, columns),
               type);
      } catch (const Error& error) {
        fail("{} as {}: {}", name, accrue::name(type), error.what());
      }
    }
  });
}

// The values of llama.cpp's LLAMA_FTYPE.
int64_t file_type_of(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::q4_0: return 2;
    case DType::q4_1: return 3;
    case DType::q8_0: return 7;
    case DType::bf16: return 32;
    default: break;
  }
  fail("a model is written to GGUF files in F32, F16, BF16, Q4_0, Q4_1 or Q8_0, not in {}",
       name(type));
}

void add_rotations(GgufWriter& file, const LlamaOptions& o, const std::string& of) {
  const RotaryBase& rotary = o.rotary;
  file.number(of + "rope.freq_base", rotary.base);
  file.count(of + "rope.dimension_count", head_size_of(o));
  if (rotary.linear_factor != 1) {
    file.text(of + "rope.scaling.type", "linear");
    file.number(of + "rope.scaling.factor", rotary.linear_factor);
  }
  if (!rotary.llama3) return;
  check(!o.has_bias, "a Qwen2 with Llama 3's scaled rotations has no form in GGUF files");
  std::vector<double> divisors = rotary_frequencies(head_size_of(o), rotary.base);
  const auto scaled = scale_as_llama3(divisors, *rotary.llama3);
  std::ranges::transform(divisors, scaled, divisors.begin(), std::divides());
  const std::vector<float> numbers(divisors.begin(), divisors.end());
  file.tensor(
      "rope_freqs.weight", {std::ssize(numbers)}, DType::f32,
      [numbers](std::span<std::byte> to) { std::memcpy(to.data(), numbers.data(), to.size()); });
}

void add_sizes(GgufWriter& file, const LlamaOptions& o, const std::string& of) {
  file.count(of + "vocab_size", o.vocabulary);
  file.count(of + "context_length", o.context);
  file.count(of + "embedding_length", o.width);
  file.count(of + "block_count", o.layers);
  file.count(of + "feed_forward_length", o.hidden);
  file.count(of + "attention.head_count", o.heads);
  file.count(of + "attention.head_count_kv", o.groups);
  file.number(of + "attention.layer_norm_rms_epsilon", o.norm_eps);
  if (head_size_of(o) * o.heads != o.width)
    for (const char* const name : {"attention.key_length", "attention.value_length"})
      file.count(of + name, head_size_of(o));
  add_rotations(file, o, of);
}

void add_sizes(GgufWriter& file, const Gpt2Options& o, const std::string& of) {
  file.count(of + "vocab_size", o.vocabulary);
  file.count(of + "context_length", o.context);
  file.count(of + "embedding_length", o.width);
  file.count(of + "block_count", o.layers);
  file.count(of + "feed_forward_length", 4 * o.width);
  file.count(of + "attention.head_count", o.heads);
  file.number(of + "attention.layer_norm_epsilon", gpt2_norm_eps);
}

void add_model_keys(GgufWriter& file, const TextModelOptions& model) {
  const std::string architecture = architecture_of(model);
  file.text("general.architecture", architecture);
  file.text("general.type", "model");
  std::visit([&](const auto& o) { add_sizes(file, o, architecture + "."); }, model);
}

// The type of a parameter in the file. llama.cpp adds the position embedding without conversion.
DType type_for(const std::string& name, const Shape& stored, DType type) {
  if (stored.rank() == 1 || name == "position_embd.weight") return DType::f32;
  return stored[-1] % block_elements(type) == 0 ? type : DType::f16;
}

// The values of a matrix after rounding to this type.
Tensor rounded_to(const Tensor& x, DType type) {
  const Tensor stored = Tensor::empty(x.shape(), type, Device::cpu, Category::parameters);
  const Tensor result = Tensor::empty(x.shape(), DType::f32, Device::cpu, Category::parameters);
  encode(stored.host_bytes(), x.span<float>(), type);
  cpu::widen_slab(result.view(), stored.view(), 0, 0);
  return result;
}

}  // namespace

double share_of_changes_kept(const Base& base, const NamedTensors& weights,
                             const GgufStorage& storage) {
  double kept = 0, all = 0;
  for (const auto& [name, tensor] : weights) {
    if (!storage.changed.contains(name)) continue;
    const std::string there = gguf_name(name);
    const DType type = storage.like ? storage.like->tensor(there).type
                                    : type_for(there, tensor.shape(), storage.type);
    if (!is_encoded(type)) continue;  // it will be refused
    const Tensor wide = as_f32(tensor), rounded = rounded_to(wide, type);
    const Tensor old = base.widened(name, tensor.shape());
    const auto before = old.span<float>(), after = wide.span<float>(), to = rounded.span<float>();
    for (size_t i = 0; i < before.size(); ++i) {
      const double change = double(after[i]) - double(before[i]);
      kept += (double(to[i]) - double(before[i])) * change;
      all += change * change;
    }
  }
  return all > 0 ? kept / all : 1;
}

void add_gguf_model(GgufWriter& file, const TextModelOptions& model, const NamedTensors& weights,
                    const GgufStorage& storage) {
  add_model_keys(file, model);
  if (!storage.like) file.count("general.file_type", file_type_of(storage.type));
  else if (const auto type = storage.like->integer("general.file_type"))
    file.count("general.file_type", *type);
  file.count("general.quantization_version", 2);
  for (const auto& [name, tensor] : weights) {
    const std::string there = gguf_name(name);
    const StoredOrder order = stored_order(model, name);
    if (!storage.like) {
      const DType type = type_for(there, stored_shape(tensor.shape(), order), storage.type);
      add_tensor(file, there, tensor, type, order);
      continue;
    }
    const GgufTensor& before = storage.like->tensor(there);
    check(before.shape == tensor.shape(), "'{}': the tensor '{}' is {}, expected {}",
          storage.like->path().string(), there, before.shape, tensor.shape());
    if (!storage.changed.contains(name)) {
      file.tensor(there, before.shape, before.type, [&before](std::span<std::byte> to) {
        std::ranges::copy(before.elements, to.begin());
      });
      continue;
    }
    check(is_encoded(before.type),
          "'{}' has '{}', which adapters change, in {}, which accrue can read but not write: "
          "expected another type than the base's, such as Q8_0",
          storage.like->path().string(), there, accrue::name(before.type));
    add_tensor(file, there, tensor, before.type, order);
  }
}

void add_gguf_general(GgufWriter& file, const Metadata& files) {
  const auto found = files.find(gguf_general_name);
  if (found == files.end()) return;
  const auto said = nlohmann::json::parse(found->second);
  for (const auto& [key, value] : said.items()) {
    if (value.is_string()) file.text(key, value.get<std::string>());
    else if (value.is_boolean()) file.flag(key, value.get<bool>());
    else if (value.is_array()) file.texts(key, value.get<std::vector<std::string>>());
    else if (value.is_number_unsigned()) file.count(key, value.get<int64_t>());
    else file.number(key, value.get<double>());
  }
}

void add_gguf_adapters(GgufWriter& file, const TextModelOptions& model, const LoraOptions& lora,
                       const NamedTensors& weights) {
  file.text("general.architecture", architecture_of(model));
  file.text("general.type", "adapter");
  file.count("general.file_type", file_type_of(DType::f32));
  file.text("adapter.type", "lora");
  // llama.cpp divides alpha by the rank.
  file.number("adapter.lora.alpha", lora.scale() * double(*lora.rank));
  constexpr std::string_view a_ends = ".lora_A.weight", b_ends = ".lora_B.weight";
  for (const auto& [name, tensor] : weights) {
    const bool is_b = name.ends_with(b_ends);
    if (!is_b && !name.ends_with(a_ends)) continue;
    const std::string of = name.substr(0, name.size() - a_ends.size()) + ".weight";
    add_tensor(file, gguf_name(of) + (is_b ? ".lora_b" : ".lora_a"), tensor, DType::f32,
               {.half_head = is_b ? stored_order(model, of).half_head : 0});
  }
}

}  // namespace accrue
