// A model on a frozen base in its stored form, compared with the same model on widened weights.

#include "text/base.h"

#include <set>

#include "core/ledger.h"
#include "core/random.h"
#include "kernels/judged.h"
#include "kernels/quantize.h"
#include "kernels/quantized_blocks.h"
#include "kernels/quantized_matmul.h"
#include "kernels/step/round_copies.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/op_table.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "train/weights.h"

namespace accrue::test {
namespace base {
namespace {

using B = GgufBytes;

constexpr uint32_t f32_type = 0, f16_type = 1, q4_1_type = 3, q8_0_type = 8, bf16_type = 30;
constexpr int64_t V = 40, T = 12;

// A Llama with two layers of width 64, 96 channels in feed-forward, and two heads in one group.
B small_base() {
  B file;
  file.string("general.architecture", "llama");
  const std::pair<const char*, uint32_t> counts[]{
      {"block_count", 2},          {"context_length", 64},      {"embedding_length", 64},
      {"feed_forward_length", 96}, {"attention.head_count", 2}, {"attention.head_count_kv", 1},
      {"vocab_size", uint32_t(V)}, {"rope.dimension_count", 32}};
  for (const auto& [key, value] : counts) file.count(std::string("llama.") + key, value);
  file.number("llama.attention.layer_norm_rms_epsilon", B::f32, 1e-5f);
  file.number("llama.rope.freq_base", B::f32, 10000.f);
  uint64_t stream = 0;
  const auto add = [&](const std::string& name, uint64_t in, uint64_t out, uint32_t type) {
    RandomStream random(++stream);
    std::vector<float> values(in * out);
    for (float& v : values) v = out == 1 ? random.uniform(0.5f, 1.5f) : random.uniform(-0.2f, 0.2f);
    std::string numbers;
    for (const float v : values) {
      if (type == f32_type) numbers += B::raw(v);
      if (type == f16_type) numbers += B::raw(Half(v));
      if (type == bf16_type) numbers += B::raw(BFloat16(v));
    }
    if (out == 1) return void(file.tensor(name, {in}, type, numbers));
    if (!numbers.empty()) return void(file.tensor(name, {in, out}, type, numbers));
    const DType blocks = type == q8_0_type ? DType::q8_0 : DType::q4_1;
    std::string bytes(bytes_of(blocks, int64_t(values.size())), '\0');
    quantize(std::as_writable_bytes(std::span(bytes)), values, blocks);
    file.tensor(name, {in, out}, type, bytes);
  };
  add("token_embd.weight", 64, uint64_t(V), q8_0_type);
  add("output_norm.weight", 64, 1, f32_type);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    add(layer + "attn_q.weight", 64, 64, layer == "blk.0." ? q4_1_type : f32_type);
    add(layer + "attn_k.weight", 64, 32, bf16_type);
    add(layer + "attn_v.weight", 64, 32, f32_type);
    add(layer + "attn_output.weight", 64, 64, f16_type);
    add(layer + "ffn_gate.weight", 64, 96, q4_1_type);
    add(layer + "ffn_up.weight", 64, 96, q4_1_type);
    add(layer + "ffn_down.weight", 96, 64, q8_0_type);
    for (const char* name : {"attn_norm.weight", "ffn_norm.weight"})
      add(layer + name, 64, 1, f32_type);
  }
  return file;
}

struct SmallBase {
  TemporaryDirectory directory;
  std::filesystem::path path = directory.write("base.gguf", small_base().file());
  BasePtr base = std::make_shared<const GgufBase>(path);
  TextModelOptions options =
      text_model_for(text_model(base->model().name, base->model().sizes), V, T);
  LoraOptions lora{.rank = 3, .targets = {"q_proj", "k_proj", "down_proj"}};
};

Samples rows_of_text() {
  RandomStream random(77);
  std::vector<int32_t> tokens, positions, labels;
  for (int32_t i = 0; i < 2 * T; ++i) {
    tokens.push_back(static_cast<int32_t>(random.uniform(0, V - 0.5f)));
    positions.push_back(i % T < 5 ? i % T : i % T - 5);  // two documents
    labels.push_back(i % 7 == 3 ? not_judged : static_cast<int32_t>(random.uniform(0, V - 0.5f)));
  }
  Samples samples;
  const auto add = [&](const char* name, const std::vector<int32_t>& values) {
    samples.fields.push_back({name, Tensor::from(values, {2, T}, test_device())});
  };
  add("tokens", tokens);
  add("positions", positions);
  add("labels", labels);
  return samples;
}

// Sets the adapters, the only trained parameters, to random values.
void draw_adapters(const Parameters& parameters) {
  for (size_t i = 0; i < parameters.entries().size(); ++i) {
    const Tensor& x = parameters.entries()[i].tensor;
    x.copy_from(tensor_with(random_values(x.shape(), 100 + i, 0.25f), x.shape(), x.dtype()));
  }
}

// Reads the weights of a model without a base from the file.
void widen_weights(Layer& model, const std::filesystem::path& path) {
  const GgufFile file(path);
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    if (is_of_adapter(name)) return;
    const GgufParameter found = find_gguf_parameter(file, name, p.shape);
    Values values;
    dispatch_blocks(found.tensor->type, [&]<class Block>() {
      const auto* blocks = reinterpret_cast<const Block*>(found.tensor->elements.data());
      const Shape matrix = matrix_shape(found.shape);
      const int64_t of_row = matrix[1] / elements_in<Block>;
      for (int64_t r = 0; r < matrix[0]; ++r)
        for (int64_t b = 0; b < of_row; ++b) {
          double widened[elements_in<Block>];
          widen(blocks[stored_row(r, half_head(found.shape)) * of_row + b], widened);
          values.insert(values.end(), std::begin(widened), std::end(widened));
        }
    });
    p.tensor.copy_from(tensor_with(values, p.shape, p.tensor.dtype()));
  });
}

// The elements rounded to blocks or numbers of a type.
Values rounded_to(DType type, const Values& values) {
  const std::vector<float> x(values.begin(), values.end());
  Values result;
  dispatch_blocks(type, [&]<class Block>() {
    if constexpr (elements_in<Block> == 1) {
      for (const float v : x) result.push_back(static_cast<float>(Block(v)));
    } else {
      std::vector<Block> blocks(x.size() / elements_in<Block>);
      quantize(std::as_writable_bytes(std::span(blocks)), x, type);
      for (const Block& block : blocks) {
        double widened[elements_in<Block>];
        widen(block, widened);
        result.insert(result.end(), std::begin(widened), std::end(widened));
      }
    }
  });
  return result;
}

Values loss_and_gradients(const Layer& model, const Parameters& parameters, const Pass& pass) {
  for (const auto& entry : parameters.entries()) zero_grad(entry.tensor);
  const Samples samples = rows_of_text();
  const Tensor loss = language_modeling()->answer(model, samples, pass);
  Values all = to_doubles(loss);
  backward(loss);
  for (const auto& entry : parameters.entries())
    for (const double g : to_doubles(grad(entry.tensor))) all.push_back(g);
  return all;
}

}  // namespace

TEST_CASE("adapters learn on a base in its blocks what they learn on its numbers", "[text]") {
  const SmallBase small;
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f64, 1e-12), {DType::f32, 1e-4}, {DType::bf16, 0x1p-8}}) {
    const auto plain = make_text_model(small.options, small.lora);
    const auto based = make_text_model(small.options, small.lora, small.base);
    const Parameters own = place(*plain, dtype, test_device(), 1);
    const Parameters adapters = place(*based, dtype, test_device(), 1);
    REQUIRE(adapters.all_entries().size() == 2 * 2 * 3);
    REQUIRE(own.entries().size() == adapters.entries().size());
    widen_weights(*plain, small.path);
    draw_adapters(own);
    draw_adapters(adapters);
    round_copies(own);
    round_copies(adapters);
    const Values expected = loss_and_gradients(*plain, own, {});
    Pass in_pieces{.recompute = Recompute::all};
    in_pieces.piece = 5;
    for (const Pass& pass : {Pass{}, in_pieces})
      REQUIRE(largest_difference(loss_and_gradients(*based, adapters, pass), expected) <=
              tolerance);
  }
}

TEST_CASE("adapters learn on a quantized base what they learn on its numbers", "[text]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "base.safetensors";
  for (const char* const name : {"gpt-tiny", "llama-tiny"}) {
    const PretrainedModel sizes{
        .name = name, .sizes = {.layers = 1, .heads = 2, .width = 64}, .vocabulary = V};
    const TextModelOptions options = text_model_for(text_model(name, sizes.sizes), V, T);
    const LoraOptions lora{.rank = 3, .targets = {"all"}};
    {
      const auto model = make_text_model(options);
      save_weights(path.string(), place(*model, DType::f32, Device::cpu, 5));
    }
    for (const auto& [bits, type] : std::map<std::optional<int>, DType>{
             {std::nullopt, DType::f32}, {4, DType::q4_0}, {8, DType::q8_0}, {16, DType::bf16}}) {
      INFO(name << ", " << bits.value_or(32) << " bits");
      const auto plain = make_text_model(options, lora);
      const auto based = make_text_model(
          options, lora, std::make_shared<const SafetensorsBase>(path, sizes, bits));
      const Parameters own = place(*plain, DType::f64, test_device(), 1);
      const Parameters adapters = place(*based, DType::f64, test_device(), 1);
      const NamedTensors tensors = read_safetensors(path);
      const std::map<std::string, Tensor> weights(tensors.begin(), tensors.end());
      plain->visit_parameters([&](const std::string& parameter, Parameter& p) {
        if (is_of_adapter(parameter)) return;
        Values values = to_doubles(weights.at(parameter));
        // down_proj has rows of 176 elements, which do not divide into blocks, so it is not
        // quantized.
        if (p.shape.rank() == 2 && p.shape[1] % block_elements(type) == 0)
          values = rounded_to(type, values);
        p.tensor.copy_from(tensor_with(values, p.shape, p.tensor.dtype()));
      });
      draw_adapters(own);
      draw_adapters(adapters);
      REQUIRE(largest_difference(loss_and_gradients(*based, adapters, {}),
                                 loss_and_gradients(*plain, own, {})) <= 1e-12);
    }
  }
}

TEST_CASE("matrices of a GGUF base stay in the file, whatever the order of their rows", "[text]") {
  const SmallBase small;
  std::set<const void*> places;
  for (const char* const name : {"q_proj", "k_proj", "v_proj"}) {
    const Shape shape{name[0] == 'q' ? 64 : 32, 64};
    const auto place = [&] {
      return small.base
          ->parameter(fmt::format("model.layers.0.self_attn.{}.weight", name), shape, DType::f32,
                      Device::cpu)
          .view()
          .data;
    };
    REQUIRE(place() == place());
    REQUIRE(places.insert(place()).second);
  }
}

TEST_CASE("a base takes the memory of its blocks, on a meta device, too", "[text]") {
  const SmallBase small;
  const auto bytes_on = [&](Device device) {
    const auto before = ledger(device).current();
    const auto model = make_text_model(small.options, small.lora, small.base);
    const Parameters adapters = place(*model, DType::f32, device, 1);
    return ledger(device).current().total() - before.total();
  };
  const size_t bytes = bytes_on(test_device());
  REQUIRE(bytes == bytes_on(meta_of(test_device())));
  const auto plain = make_text_model(small.options, small.lora);
  const Parameters own = place(*plain, DType::f32, meta_of(test_device()), 1);
  REQUIRE(bytes < 4 * size_t(own.count()) * 45 / 100 + (4 << 10));
}

}  // namespace base
}  // namespace accrue::test
