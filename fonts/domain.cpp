#include "fonts/domain.h"

#include <fmt/ranges.h>

#include "core/inside.h"
#include "fonts/glyphs.h"
#include "fonts/strokes.h"
#include "layers/models.h"

namespace accrue {
namespace {

constexpr const char* model_name = "zi2zi";

Settings settings_of_game(Zi2ziGame& game, TrainingOptions& training) {
  constexpr Decides result = Decides::result;
  const ActsWith with_zi2zi{{"model", {model_name}}};
  Zi2ziOptions& networks = game.networks;
  Zi2ziLosses& losses = game.losses;
  const auto about = [&](std::string name, std::string help, Saved saved = Saved::no) {
    return SettingFacts{.name = std::move(name),
                        .decides = result,
                        .help = std::move(help),
                        .acts_with = with_zi2zi,
                        .saved = saved};
  };
  const auto of_weights = [&](std::string name, std::string help) {
    return about(std::move(name), std::move(help), Saved::with_weights);
  };
  const auto weight = [&](std::string name, std::string help) {
    SettingFacts all = about(std::move(name), std::move(help));
    all.range = zero_or_more;
    all.costs = Costs::nothing;
    return all;
  };
  const auto count = [&](std::string name, std::string help) {
    SettingFacts all = about(std::move(name), std::move(help));
    all.range = {.low = 1};
    return all;
  };
  SettingFacts adaptive =
      weight("adversarial-weight",
             "Weight of the generator's adversarial loss; without, 0.05 to 0.6, by "
             "the discriminator's loss of a window");
  SettingFacts lr_d = about("lr-d", "Learning rate of the discriminator");
  lr_d.unset = "--lr";
  lr_d.costs = Costs::nothing;
  SettingFacts dropout =
      about("g-dropout", "Dropout in the generator's inner levels", Saved::with_scores);
  dropout.range = {0, 0.999};
  dropout.elsewhere = {{"dropout", ""}};
  SettingFacts embedding = count("embedding", "How many numbers stand for a style");
  embedding.saved = Saved::with_weights;
  Settings s;
  s.group("Font GAN")
      .add(networks.upsampling, upsampling_names(),
           of_weights("upsampling", "How the generator doubles height and width"))
      .add(networks.skip, skip_names(),
           of_weights("skip", "How its decoders join the outputs of the encoders"))
      .add(networks.norm, glyph_norm_names(),
           of_weights("norm", "Norm of both networks; batch depends on the micro-batch"))
      .add(networks.embedding, std::move(embedding))
      .add_flag(networks.self_attention, true,
                of_weights("self-attention", "Self-attention in two levels of the generator"))
      .add_flag(networks.spectral_norm, true,
                about("d-spectral-norm", "Spectral norm in the discriminator"))
      .add(networks.dropout, std::move(dropout))
      .add(training.order, order_names(),
           about("order",
                 "alternating: the discriminator steps, then the generator plays against it; "
                 "simultaneous: both step at the end of a window"))
      .add(game.generator_every,
           count("n-critic", "Windows of the discriminator for each one of the generator"))
      .add(game.generator_times,
           count("g-steps", "Steps of the generator in each window that it plays"))
      .add(game.discriminator_lr, std::move(lr_d))
      .add(losses.constancy, constancy_names(),
           about("constancy",
                 "Which features must agree: of source and drawing (original) or of source and "
                 "target (port)"))
      .add(losses.l1_weight, weight("l1-weight", "Weight of the mean distance to the target"))
      .add(losses.constancy_weight, weight("constancy-weight", "Weight of the features' distance"))
      .add(losses.category_weight, weight("category-weight", "Weight of telling styles apart"))
      .add(losses.adversarial_weight, std::move(adaptive));
  return s;
}

}  // namespace

Settings Fonts::settings(TrainingOptions& training) { return settings_of_game(game, training); }

std::vector<DomainModel> Fonts::models() const {
  return {
      {.name = model_name,
       .sample = {{{"sources", Encoding::pixel, {1, 64, 64}},
                   {"targets", Encoding::pixel, {1, 64, 64}},
                   {.name = "styles", .encoding = Encoding::index, .classes = 1, .is_seen = true}}},
       .data = "strokes",
       .heeds = {"width", "init-scheme", "pack", "sample-every"},
       .has_own_pixels = true,
       .other_norm = "--norm instance"}};
}

Zi2ziOptions Fonts::networks(const NetworkOptions& options, const SampleSpec& sample) const {
  const Shape& image = sample.input().shape;
  check(image[1] == image[2], "zi2zi on images {}: expected the same height and width", image);
  Zi2ziOptions o = game.networks;
  o.size = image[1];
  o.channels = image[0];
  o.styles = sample.classes();
  o.width = scaled(64, options.width);
  o.init = options.init;
  return o;
}

ModelFactory Fonts::factory(const std::string&, const NetworkOptions& options,
                            const SampleSpec& sample) const {
  return [o = networks(options, sample)] { return std::make_unique<Zi2ziGenerator>(o); };
}

Example Fonts::example(const Layer& network, const SampleSpec& sample, int64_t N) const {
  const Shape& image = sample.input().shape;
  const Tensor sources =
      Tensor::full({N, image[0], image[1], image[2]}, 0, DType::f32, Device::cpu);
  const Tensor styles = Tensor::from(std::vector<int32_t>(size_t(N)), {N});
  const Zi2ziGenerator& generator = Zi2ziGenerator::of(network);
  return {.inputs = {{sample.input().name, sources}, {"styles", styles}},
          .answer_names = {"drawings"},
          .answers = [&generator, sources, styles] {
            return std::vector{
                generator.draw(generator.encode(sources, Pass::eval()), styles, Pass::eval())};
          }};
}

std::vector<PlayerOptions> Fonts::players(const NetworkOptions& options, const SampleSpec& sample,
                                          const StepOptions& step) const {
  Zi2ziGame played = game;
  played.networks = networks(options, sample);
  played.step = step;
  return zi2zi_players(played);
}

ObjectivePtr Fonts::objective(const Dataset&) const { return glyph_drawing(); }

Descriptions Fonts::descriptions() const {
  return {{"real", "Mean logistic loss of the discriminator over true pairs."},
          {"fake", "Mean logistic loss of the discriminator over drawings."},
          {"category",
           "Mean logistic loss of telling styles apart; for the discriminator, the sum over "
           "true pairs and drawings."},
          {"adversarial", "Mean logistic loss of the generator's drawings taken for true ones."},
          {"l1", "Mean absolute difference of drawing and target, pixels from -1 to 1."},
          {"constancy", "Distance of the generator's features that are to agree."},
          {"adversarial_weight", "Factor on the adversarial part of the generator's loss."},
          {"ssim", "Mean structural similarity of drawing and target, at most 1."},
          {"ink_iou", "Mean over glyphs of the intersection over union of the ink, from 0 to 1."},
          {"ink_f1", "Mean over glyphs of the F1 score of the ink, from 0 to 1."},
          {"ink", "Ink of all drawings, as a share of the ink of their targets."},
          {"drawings", "Sources, drawings and targets, one below the other."}};
}

void Fonts::check_run(int64_t windows) const {
  const int64_t every = game.generator_every;
  check(windows == 0 || windows >= every,
        "--n-critic {}: the generator plays in one window of {}, and the run has {}: "
        "expected more --epochs or --steps, or a smaller --n-critic or --effective-batch",
        every, every, windows);
}

Domain::Claim Fonts::claim(const std::string& data) const {
  return data == "strokes" || holds_glyphs(data) ? Claim::own : Claim::none;
}

Datasets Fonts::load(const DataRequest& request) const {
  if (request.data != "strokes") return load_glyphs(request.data);
  StrokesOptions strokes{.train_size = 2000, .test_size = 200};
  const std::string text = request.value("image-size");
  if (const auto size = read_image_size(text, "--image-size")) {
    check(size->height == size->width,
          "--image-size {}: the strokes of --data strokes are as high as wide", text);
    strokes.side = size->height;
  }
  return {make_strokes(Split::train, strokes), make_strokes(Split::test, strokes)};
}

void Fonts::fit(Datasets& data, const DomainModel& model, const DataRequest& request) const {
  const Normalization& pixels = data.train.fields.front().normalization;
  check(pixels == Normalization(),
        "--mean {} --std {}: --model {} draws pixels from -1 to 1, as its last layer gives them: "
        "expected neither option",
        fmt::join(pixels.mean, ","), fmt::join(pixels.std, ","), model.name);
  check(data.train.has("sources"),
        "--model {} draws the glyphs of one font in the style of another, but the data set {} has "
        "{}: expected --data strokes, or a directory of accrue font prepare",
        model.name, data.train.name, data.train.fields.front().name);
  const std::string crop = request.value("crop");
  check(crop.empty(), "--crop {}: a glyph is drawn as a whole; expected no --crop", crop);
}

}  // namespace accrue
