#include "fonts/zi2zi_game.h"

#include <algorithm>

#include "core/inside.h"
#include "core/memory_scope.h"
#include "fonts/glyph_score.h"
#include "kernels/arithmetic.h"
#include "kernels/backend.h"
#include "kernels/losses.h"
#include "kernels/one_hot.h"

namespace accrue {
namespace {

constexpr StepFunction adversarial_weight_of_loss{{0.02, 0.08, 0.20, 5},
                                                  {0.20, 0.35, 0.50, 0.60, 0.05}};

const Zi2ziGenerator& generator(const Networks& networks) {
  return Zi2ziGenerator::of(networks["generator"]);
}
const Zi2ziDiscriminator& discriminator(const Networks& networks) {
  return dynamic_cast<const Zi2ziDiscriminator&>(networks["discriminator"]);
}

Tensor zeros_like(const Tensor& x) {
  const MemoryScope scope("zeros");
  return Tensor::full(x.shape(), 0, x.dtype(), x.device());
}

// The loss of D's guess of the pairs' styles.
Tensor category_loss(const Tensor& logits, const Tensor& styles) {
  return bce_with_logits(logits, one_hot(styles, logits.size(1), logits.dtype()));
}

Loss discriminator_loss(const Zi2ziLosses& losses, const Networks& networks, const Samples& s,
                        const Pass& pass) {
  const Zi2ziDiscriminator& D = discriminator(networks);
  const Zi2ziGenerator& G = generator(networks);
  const auto real = D.judge(s["sources"], s["targets"], pass);
  const auto fake =
      D.judge(s["sources"], G.draw(G.encode(s["sources"], pass), s["styles"], pass), pass);
  const Tensor of_real = bce_with_logits(real.is_real, 1.0);
  const Tensor of_fake = bce_with_logits(fake.is_real, 0.0);
  const Tensor category =
      add(category_loss(real.style, s["styles"]), category_loss(fake.style, s["styles"]));
  return {add(scale(add(of_real, of_fake), 0.5), scale(category, losses.category_weight / 2)),
          {of_real.detach(), of_fake.detach(), category.detach()}};
}

// The distance of the features that G's encoder finds in the source from the wanted ones.
Tensor constancy_loss(Constancy constancy, const Tensor& found, const Tensor& wanted) {
  const Tensor difference = add(scale(wanted, -1), found);
  return constancy == Constancy::port ? l1_loss(difference, zeros_like(difference))
                                      : mse_loss(difference, zeros_like(difference));
}

Loss generator_loss(const Zi2ziLosses& losses, const Networks& networks, const Samples& s,
                    const Pass& pass) {
  const Zi2ziDiscriminator& D = discriminator(networks);
  const Zi2ziGenerator& G = generator(networks);
  const bool port = losses.constancy == Constancy::port;
  const Features which = port ? Features::two_levels : Features::coarsest;
  // Computes the targets' features first. Backward, in reverse order, then reaches them last, after
  // it has released everything else. With batch norm they come second, because the running
  // statistics see them in the same order as the port's.
  const bool first = port && G.options().norm != NormKind::batch;
  Tensor wanted;
  if (first) wanted = G.features_of(s["targets"], which, pass);
  const auto source = G.encode(s["sources"], pass);
  const Tensor drawn = G.draw(source, s["styles"], pass);
  if (!first) wanted = G.features_of(port ? s["targets"] : drawn, which, pass);
  const auto fake = D.judge(s["sources"], drawn, pass);
  const Tensor adversarial = bce_with_logits(fake.is_real, 1.0);
  const Tensor l1 = l1_loss(drawn, s["targets"]);
  const Tensor constancy = constancy_loss(losses.constancy, G.features(source, which), wanted);
  const Tensor category = category_loss(fake.style, s["styles"]);
  const Tensor adversarial_weight = D.adversarial_weight();
  return {
      add(add(scale_by(adversarial, adversarial_weight), scale(l1, losses.l1_weight)),
          add(scale(constancy, losses.constancy_weight), scale(category, losses.category_weight))),
      {adversarial.detach(), l1.detach(), constancy.detach(), category.detach(),
       adversarial_weight}};
}

void set_adversarial_weight(const Zi2ziLosses& losses, const Networks& networks, const Game& game) {
  const Tensor& weight = discriminator(networks).adversarial_weight();
  if (losses.adversarial_weight) weight.fill(*losses.adversarial_weight);
  else
    follow_loss(weight.view(), game.players().front().window.state(), adversarial_weight_of_loss);
}

class GlyphDrawing : public Objective {
 public:
  std::string name() const override { return "drawing"; }
  std::string input() const override { return "sources"; }
  std::vector<std::string> targets() const override { return {"targets", "styles"}; }
  Tensor answer(const Layer& model, const Samples& s, const Pass& pass) const override {
    const Zi2ziGenerator& G = Zi2ziGenerator::of(model);
    return G.draw(G.encode(s["sources"], pass), s["styles"], pass);
  }
  Tensor loss(const Tensor& drawn, const Samples& s) const override {
    return l1_loss(drawn, s["targets"]);
  }
  int64_t sums() const override { return 6; }
  void add_score(const Tensor& sums, const Tensor& drawn, const Samples& s) const override {
    add_on_host(sums, [&]() -> std::vector<double> {
      const Tensor a = as_f32(drawn), b = as_f32(s["targets"]);
      const GlyphScore sum = sum_of_glyph_scores(a, b);
      return {sum.ssim, sum.ink_iou, sum.ink_f1, sum.l1, ink_of(a), ink_of(b)};
    });
  }
  Score score(std::span<const double> sums, const Dataset& data) const override {
    const double n = double(data.size());
    const double ssim = sums[0] / n, iou = sums[1] / n, f1 = sums[2] / n, l1 = sums[3] / n;
    const double ink = sums[5] > 0 ? sums[4] / sums[5] : 1;
    return {.loss = 1 - ssim,
            .samples = data.size(),
            .metrics = {{"ssim", ssim}, {"ink_iou", iou}, {"ink_f1", f1}, {"l1", l1}, {"ink", ink}},
            .text = fmt::format("SSIM {:.4f}, ink IoU {:.4f}, ink F1 {:.4f}, L1 {:.4f}", ssim, iou,
                                f1, l1)};
  }

 private:
  // The number of dark pixels.
  static double ink_of(const Tensor& images) {
    return double(std::ranges::count_if(images.span<float>(), [](float x) { return x < 0; }));
  }
};

}  // namespace

const std::map<std::string, Upsampling>& detail::upsampling_names() {
  static const std::map<std::string, Upsampling> names{{"pixel-shuffle", Upsampling::pixel_shuffle},
                                                       {"transposed", Upsampling::transposed}};
  return names;
}

const std::map<std::string, Skip>& detail::skip_names() {
  static const std::map<std::string, Skip> names{{"add", Skip::add}, {"concat", Skip::concat}};
  return names;
}

const std::map<std::string, NormKind>& detail::glyph_norm_names() {
  static const std::map<std::string, NormKind> names{{"instance", NormKind::instance},
                                                     {"batch", NormKind::batch}};
  return names;
}

const std::map<std::string, Constancy>& detail::constancy_names() {
  static const std::map<std::string, Constancy> names{{"original", Constancy::original},
                                                      {"port", Constancy::port}};
  return names;
}

std::vector<PlayerOptions> zi2zi_players(const Zi2ziGame& game) {
  StepOptions of_discriminator = game.step;
  if (game.discriminator_lr) of_discriminator.schedule.base = *game.discriminator_lr;
  const auto loss_of = [losses = game.losses](auto loss) {
    return [=](const Networks& networks, const Samples& s, const Pass& pass) {
      return loss(losses, networks, s, pass);
    };
  };
  return {{.name = "discriminator",
           .model = [o = game.networks] { return std::make_unique<Zi2ziDiscriminator>(o); },
           .loss = loss_of(discriminator_loss),
           .step = of_discriminator,
           .terms = {"real", "fake", "category"}},
          {.name = "generator",
           .model = [o = game.networks] { return std::make_unique<Zi2ziGenerator>(o); },
           .loss = loss_of(generator_loss),
           .step = game.step,
           .every = game.generator_every,
           .times = game.generator_times,
           .terms = {"adversarial", "l1", "constancy", "category", "adversarial_weight"},
           .begin = [losses = game.losses](
                        const Networks& networks,
                        const Game& played) { set_adversarial_weight(losses, networks, played); }}};
}

ObjectivePtr detail::glyph_drawing() { return std::make_shared<GlyphDrawing>(); }

}  // namespace accrue
