#include "train/training.h"

#include <algorithm>

#include "accumulate/ranks.h"
#include "core/ceil_div.h"
#include "core/cuda.h"
#include "train/counted_losses.h"
#include "train/weights.h"
#include "train/window_loss.h"

namespace accrue {
namespace {

// The elements that this rank's optimizer owns. A plan is for the first rank, which owns the most.
Owned owned_of(const TrainingOptions& o, const Tensor& values) {
  if (!o.shard_optimizer || !o.ranks) return {};
  return Shards{values.numel(), o.ranks->count()}.of(is_meta(values.device()) ? 0
                                                                              : o.ranks->rank());
}

// The parameters that StepOptions::no_decay selects.
std::vector<Parameters::Range> without_decay(const Parameters& parameters,
                                             const std::vector<std::string>& names) {
  const auto is_meant = [](const Parameters::Entry& entry, const std::string& name) {
    if (name == "vectors") return entry.tensor.shape().rank() == 1;
    return ("." + entry.name + ".").find("." + name + ".") != std::string::npos;
  };
  for (const std::string& name : names)
    check(
        name == "none" || name == "vectors" ||
            std::ranges::any_of(parameters.entries(),
                                [&](const auto& entry) { return is_meant(entry, name); }),
        "no parameters that could decay are called '{}': expected vectors, none, or a name such as "
        "{} or a part of one between dots",
        name, parameters.entries().front().name);
  return parameters.ranges([&](const Parameters::Entry& entry) {
    return std::ranges::any_of(names, [&](const auto& name) { return is_meant(entry, name); });
  });
}

WindowOptions window_options(const TrainingOptions& o, const StepOptions& step, uint64_t seed,
                             Device device) {
  return {.effective_batch_size = o.batches.effective,
          .strategy = o.strategy,
          .seed = seed,
          .clip_norm = step.clip_norm,
          .loss_scale = step.chosen_loss_scale(o.precision),
          .on_overflow = o.on_overflow,
          .ema_decay = step.ema,
          .noise_scale = step.noise_scale ? NoiseScale::estimate : NoiseScale::off,
          .graphs = o.cuda_graphs,
          .ranks = o.ranks,
          .overlap = o.chosen_overlap(device)};
}

void keep_packed(const TrainingOptions& o, const Parameters& parameters) {
  const bool pays = o.pack == Pack::where_it_pays && o.batches.accumulation_steps() > 1;
  if (pays || o.pack == Pack::on) parameters.keep_packed(o.pack);
}

// A different seed for each network, so that two of one shape start differently. The first
// network's seed is the run's.
uint64_t seed_of(uint64_t seed, size_t number) { return seed + number * 0x9e3779b97f4a7c15; }

const TrainingOptions& checked(const TrainingOptions& options) {
  check_options(options);
  check(options.on_oom == OnOom::fail || !drops_gradients(options.strategy),
        "to split a window that does not fit it is rolled back, which strategy {} cannot: expected "
        "fused or separate, or to fail when memory runs out",
        name_in(strategy_names(), options.strategy));
  return options;
}

// Throws an Error that says why, unless all micro-batches of a window can be seen together.
void check_sees_window(const TrainingOptions& o, std::string_view why) {
  check(o.on_overflow == OnOverflow::skip_window,
        "{} no micro-batch can be left out of it: expected on-overflow skip-window", why);
  check(!o.noise_scale, "{} a micro-batch has no gradient of its own: expected no noise scale",
        why);
}

// Throws Error if one of several ranks could start a window again on its own.
void check_can_wait(const TrainingOptions& o, std::string_view why) {
  check(!o.ranks || o.ranks->count() == 1 || o.on_oom == OnOom::fail,
        "{} ranks wait for each other within it, and none can begin it anew: expected on-oom fail",
        why);
}

void check_window_loss(const TrainingOptions& o) {
  constexpr std::string_view why = "the loss compares all samples of a window with each other, so";
  check_sees_window(o, why);
  check_can_wait(o, why);
}

void check_counts_apart(const TrainingOptions& o) {
  constexpr std::string_view why =
      "the losses are means over different things, whose numbers in the window they must know, so";
  check_sees_window(o, why);
  check_can_wait(o, why);
}

void check_batch_norm(const TrainingOptions& o, Device device) {
  check(o.batch_norm_by == BatchNormBy::keep || o.batch_norm == BatchNormOver::window,
        "BatchNorms of a micro-batch do not wait for a window: expected batch-norm-by keep, or "
        "batch-norm window");
  if (o.batch_norm == BatchNormOver::micro_batch) return;
  constexpr std::string_view why = "BatchNorm sees all samples of a window, so";
  check_sees_window(o, why);
  check(o.batch_norm_by != BatchNormBy::offload || plans_for_cuda(device),
        "on the cpu, the data that waits for a window is on the host already: expected "
        "batch-norm-by keep or walk");
  check(!o.keeps_window() || o.players.empty(),
        "{} a network that keeps it must be trained alone: expected batch-norm-by walk, or no "
        "players",
        why);
  check(!o.keeps_window() || facts_of(o.strategy).takes_joint_gradients,
        "{} gradients of several micro-batches that are kept come together: expected batch-norm-by "
        "walk, or strategy fused, not {}",
        why, name_in(strategy_names(), o.strategy));
  check_can_wait(o, why);
}

}  // namespace

Training::Training(const TrainingOptions& options, const Dataset& data, Device device)
    : blocks_on_host_(std::make_shared<cuda::BlocksOnHost>()),
      options_(checked(options)),
      device_(device),
      objective_(options.objective_for(data)),
      data_(data) {
  if (options_.players.empty() && objective_->is_of_window()) check_window_loss(options_);
  if (options_.players.empty() && objective_->counts_apart(data_)) check_counts_apart(options_);
  check_precision(options_.precision, device_);
  check_batch_norm(options_, device_);
  if (!options_.share_unit) options_.share_unit = options.batches.micro;
  const auto make = [&](int64_t micro) {
    options_.batches.micro = micro;
    make_networks();
    loader_ = make_loader();
  };
  if (options.on_oom == OnOom::split) with_fewer_samples(options.batches.micro, make);
  else make(options.batches.micro);
}

namespace {

std::unique_ptr<Layer> new_model(const PlayerOptions& own) {
  std::unique_ptr<Layer> model = own.model();
  check(model != nullptr, "the function that makes the model returned null: expected a module");
  return model;
}

}  // namespace

Training::Network::Network(const TrainingOptions& o, const PlayerOptions& own, uint64_t seed,
                           const ScheduleOptions& schedule, Device device)
    : model(new_model(own)),
      parameters(place(*model, accrue::compute_dtype(o.precision), device, seed,
                       gradient_storage(o.strategy), o.freeze)),
      optimizer(own.step.make_optimizer(parameters, o.batches.effective,
                                        owned_of(o, parameters.values()))),
      window(*optimizer, schedule, window_options(o, own.step, seed, device)) {
  optimizer->exempt_from_decay(without_decay(parameters, own.step.no_decay));
  keep_packed(o, parameters);
}

namespace {

// Gives the player the objective's loss of a whole window.
void take_loss_of_window(Player& player, const ObjectivePtr& objective, const Layer& model,
                         Ranks* ranks) {
  const auto loss = std::make_shared<WindowLoss>(
      [objective, &model](const Samples& samples, const Pass& pass) {
        return objective->answer(model, samples, pass);
      },
      [objective](const Tensor& answers) { return objective->window_loss(answers); }, ranks);
  player.loss = [loss](const Samples& samples, const Pass& pass) {
    return loss->loss(samples, pass);
  };
  player.walk = [loss, each = player.walk] { return loss->walk(each); };
}

// Gives the player the objective's losses that count apart.
void take_losses_apart(Player& player, const ObjectivePtr& objective, const Layer& model,
                       Ranks* ranks) {
  const auto losses = std::make_shared<CountedLosses>(
      [objective, &model](const Samples& samples, const Pass& pass) {
        return objective->losses(model, samples, pass);
      },
      [objective](const Samples& samples) { return objective->weights(samples); }, ranks);
  player.loss = [losses](const Samples& samples, const Pass& pass) {
    return losses->loss(samples, pass);
  };
  player.weight = nullptr;
  player.walk = [losses, each = player.walk] { return losses->walk(each); };
}

}  // namespace

void Training::make_networks() {
  game_.reset();
  by_name_ = {};
  networks_.clear();
  std::vector<Player> players;
  for (const PlayerOptions& own : options_.networks(objective_)) {
    networks_.push_back(
        std::make_unique<Network>(options_, own, seed_of(options_.seed, networks_.size()),
                                  options_.schedule_of(own, data_.size()), device_));
    const Layer& model = *networks_.back()->model;
    by_name_.add(own.name, model);
    players.push_back({.name = own.name,
                       .window = networks_.back()->window,
                       .loss = std::bind_front(own.loss, std::cref(by_name_)),
                       .every = own.every,
                       .times = own.times,
                       .terms = own.terms,
                       .begin =
                           [this, &model, begin = own.begin] {
                             model.begin_window();
                             if (begin) begin(by_name_, *game_);
                           },
                       .weight = own.weight,
                       .walk = batch_norm_walk(options_.batch_norm, options_.batch_norm_by,
                                               options_.window_passes, options_.ranks)});
    if (options_.players.empty() && objective_->counts_apart(data_))
      take_losses_apart(players.back(), objective_, model, options_.ranks);
    if (own.of_window) take_loss_of_window(players.back(), own.of_window, model, options_.ranks);
  }
  game_.emplace(std::move(players), options_.order);
  check(options_.batch_norm == BatchNormOver::micro_batch || trains_batch_norm(),
        "a network without BatchNorms to train has no statistics of a window: expected batch-norm "
        "micro");
}

std::unique_ptr<Loader> Training::make_loader() const {
  // a plan is for the first rank
  const int rank = options_.ranks && !is_meta(device_) ? options_.ranks->rank() : 0;
  return std::make_unique<Loader>(
      data_, LoaderOptions{.effective_batch_size = options_.batches.effective,
                           .micro_batch_size = options_.batches.micro,
                           .seed = options_.seed,
                           .shuffle = options_.shuffle ? Shuffle::on : Shuffle::off,
                           .device = device_,
                           .dtype = scored().parameters.compute_dtype(),
                           .augment = Augment::yes,
                           .graphs = options_.cuda_graphs,
                           .rank = rank,
                           .ranks = ranks(),
                           .share_unit = *options_.share_unit});
}

// A norm without weights, or one whose weights are constants, takes the batch's statistics, too.
bool Training::trains_batch_norm() const {
  for (const auto& network : networks_) {
    const Parameters& parameters = network->parameters;
    const auto has = [](const std::vector<Parameters::Entry>& entries, const std::string& layer) {
      return std::ranges::any_of(entries, [&](const auto& e) { return layer_of(e.name) == layer; });
    };
    for (const auto& buffer : parameters.buffer_entries()) {
      const std::string layer = layer_of(buffer.name);
      if (buffer.name == layer + ".running_mean" &&
          (has(parameters.entries(), layer) || !has(parameters.fixed_entries(), layer)))
        return true;
    }
  }
  return false;
}

Loader& Training::loader() {
  if (!loader_) loader_ = make_loader();
  return *loader_;
}

int Training::ranks() const { return options_.ranks ? options_.ranks->count() : 1; }

void Training::play(int64_t epoch, int64_t window, Observer& observer, const StopRequest& stop) {
  for (const Game::Turn& turn : game_->turns()) {
    for (bool fits = false; !fits;) {
      try {
        const auto all = window_of(loader(), epoch, window);
        const auto until_stopped = [&](int64_t i) {
          if (stop() == Stop::now) roll_back_and_stop(turn);
          return all(i);
        };
        game_->accumulate(turn, until_stopped, pass(epoch), variant(epoch));
        fits = true;
      } catch (const OutOfMemory&) {
        if (options_.on_oom == OnOom::fail || !can_halve()) throw;
      }
      if (!fits) observer.on_halving(halve(epoch, window));
    }
    game_->step(turn);
    for (const Player* player : turn) observer.on_window(*player);
  }
  game_->end_window();
}

void Training::roll_back_and_stop(const Game::Turn& turn) {
  const int64_t done = turn.front()->window.micro_batches();
  game_->abandon();
  throw Stopped(
      fmt::format("stopped after {} of {} micro-batches of a window, which was rolled back", done,
                  batches().accumulation_steps()));
}

bool Training::can_halve() const {
  const int64_t length = objective_->divisible_length(data_);
  return batches().micro > 1 || (length > 1 && batches().piece != 1);
}

// Forgets the current turn. The loader for the smaller micro-batch may not fit either, because it
// holds several micro-batches in slots: then the size is halved again.
Halving Training::halve(int64_t epoch, int64_t window) {
  const Batches before = batches();
  game_->abandon();
  if (device_ == Device::cuda) cuda::synchronize();  // copies from the loader may be in progress
  loader_.reset();
  if (before.micro == 1) {
    const int64_t length = objective_->divisible_length(data_);
    options_.batches.piece =
        ceil_div<int64_t>(before.piece > 0 ? std::min(before.piece, length) : length, 2);
  }
  const auto make = [&](int64_t micro) {
    if (device_ == Device::cuda) cuda::blocks().release_cached();
    options_.batches.micro = micro;
    ++halved_;
    loader_ = make_loader();
  };
  with_fewer_samples((before.micro + 1) / 2, make);
  // From here on, the peak is measured with the new split.
  ledger(device_).reset_peak();
  return {epoch, window, before, batches()};
}

Pass Training::pass(int64_t epoch) const {
  return {.mode = Pass::Mode::train,
          .seed = options_.seed,
          .epoch = epoch,
          .recompute = options_.recompute,
          .piece = options_.batches.piece};
}

int64_t Training::variant(int64_t epoch) const {
  constexpr int64_t epochs = int64_t{1} << 40;
  const bool random = std::ranges::any_of(
      networks_, [](const auto& network) { return network->model->is_random(); });
  return halved_ * epochs + (random ? epoch : 0);
}

int64_t Training::steps() const {
  int64_t most = 0;
  for (const Player& player : game_->players())
    most = std::max(most, player.window.steps() / player.times);
  return most;
}

NamedTensors Training::named_tensors() const {
  NamedTensors all;
  for (const Player& player : game_->players())
    for (auto& [name, tensor] : accrue::named_tensors(player.window.parameters()))
      all.emplace_back(player.named(name), std::move(tensor));
  return all;
}

}  // namespace accrue
