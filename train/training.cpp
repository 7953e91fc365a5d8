#include "train/training.h"

#include <algorithm>

#include "accumulate/ranks.h"
#include "core/cuda.h"
#include "train/weights.h"

namespace accrue {
namespace {

// The elements that this rank's optimizer owns. A plan is the first rank's, which owns most.
Owned owned_of(const TrainingOptions& o, const Tensor& values) {
  if (!o.shard_optimizer || !o.ranks) return {};
  return Shards{values.numel(), o.ranks->count()}.of(is_meta(values.device()) ? 0
                                                                              : o.ranks->rank());
}

std::unique_ptr<Optimizer> make_optimizer(const TrainingOptions& o, Parameters& parameters) {
  const Owned owned = owned_of(o, parameters.values());
  const double beta2 = o.chosen_beta2();
  const double decay = o.weight_decay.value_or(o.optimizer == OptimizerKind::adamw ? 0.01 : 0);
  const AdamOptions adam_options{o.beta1, beta2, o.eps, decay};
  switch (o.optimizer) {
    case OptimizerKind::adam: return adam(parameters, adam_options, owned);
    case OptimizerKind::adamw: return adamw(parameters, adam_options, owned);
    case OptimizerKind::lion: return lion(parameters, {o.beta1, beta2, decay}, owned);
    case OptimizerKind::sgd: break;
  }
  return sgd(parameters, {o.momentum, decay, o.nesterov}, owned);
}

WindowOptions window_options(const TrainingOptions& o, Device device, uint64_t seed) {
  return {.effective_batch_size = o.batches.effective,
          .strategy = o.strategy,
          .seed = seed,
          .clip_norm = o.clip_norm,
          .loss_scale = o.chosen_loss_scale(),
          .on_overflow = o.on_overflow == OnOverflowChoice::drop_micro_batch
                             ? OnOverflow::drop_micro_batch
                             : OnOverflow::skip_window,
          .ema_decay = o.ema,
          .noise_scale = o.noise_scale ? NoiseScale::estimate : NoiseScale::off,
          .graphs = o.cuda_graphs,
          .ranks = o.ranks,
          .overlap = o.chosen_overlap(device)};
}

void keep_packed(const TrainingOptions& o, const Parameters& parameters) {
  if (o.pack == Pack::on) return parameters.keep_packed(PackedForms::Keep::all);
  if (o.pack == Pack::where_it_pays && o.batches.accumulation_steps() > 1)
    parameters.keep_packed(PackedForms::Keep::where_it_pays);
}

// A network's own, so that two of one shape start apart. The first one's is the run's.
uint64_t seed_of(uint64_t seed, size_t number) { return seed + number * 0x9e3779b97f4a7c15; }

const TrainingOptions& checked(const TrainingOptions& options) {
  check_options(options);
  return options;
}

}  // namespace

Training::Training(const TrainingOptions& o, const Dataset& data, Device device)
    : batches_(checked(o).batches),
      device_(device),
      seed_(o.seed),
      recompute_(o.recompute),
      graphs_(o.cuda_graphs),
      rank_(o.ranks && !is_meta(device) ? o.ranks->rank() : 0),  // a plan is the first rank's
      ranks_(o.ranks ? o.ranks->count() : 1),
      dealt_(o.dealt.value_or(o.batches.micro)),
      objective_(o.objective_for(data)),
      shuffle_(o.shuffle ? Shuffle::on : Shuffle::off),
      data_(data) {
  add_networks(o);
  loader_ = make_loader();
}

Training::Network::Network(const TrainingOptions& own, Device device, uint64_t seed,
                           const ScheduleOptions& schedule)
    : model(own.model()),
      parameters(place(*model, accrue::compute_dtype(own.precision), device, seed,
                       gradient_storage(own.strategy), own.freeze)),
      optimizer(make_optimizer(own, parameters)),
      window(*optimizer, schedule, window_options(own, device, seed)) {
  keep_packed(own, parameters);
}

void Training::add_networks(const TrainingOptions& o) {
  std::vector<Player> players;
  const auto add = [&](const std::string& name, int64_t every = 1, int64_t times = 1) {
    const size_t number = networks_.size();
    const TrainingOptions own = o.of_player(number);
    networks_.push_back(std::make_unique<Network>(own, device_, seed_of(o.seed, number),
                                                  o.schedule_of(number, data_.size())));
    const Module& model = *networks_.back()->model;
    by_name_.add(name, model);
    return Player{.name = name,
                  .window = networks_.back()->window,
                  .every = every,
                  .times = times,
                  .begin = [&model] { model.begin_step(); }};
  };
  if (o.players.empty()) {
    players.push_back(add(""));
    players.back().loss = [this](const Samples& samples, const Pass& pass) {
      return objective_->loss(objective_->answer(model(), samples, pass), samples);
    };
    players.back().weight = [this](const Samples& samples) { return objective_->weight(samples); };
  }
  for (const PlayerOptions& player : o.players) {
    players.push_back(add(player.name, player.every, player.times));
    players.back().loss = [this, loss = player.loss](const Samples& samples, const Pass& pass) {
      return loss(by_name_, samples, pass);
    };
    players.back().terms = player.terms;
    if (player.begin)
      players.back().begin = [this, first = players.back().begin, begin = player.begin] {
        first();
        begin(by_name_, *game_);
      };
  }
  game_.emplace(std::move(players), o.order);
}

std::unique_ptr<Loader> Training::make_loader() const {
  return std::make_unique<Loader>(data_, LoaderOptions{.effective_batch_size = batches_.effective,
                                                       .micro_batch_size = batches_.micro,
                                                       .seed = seed_,
                                                       .shuffle = shuffle_,
                                                       .device = device_,
                                                       .dtype = scored().parameters.compute_dtype(),
                                                       .prefetch = Prefetch::off,
                                                       .augment = Augment::yes,
                                                       .graphs = graphs_,
                                                       .rank = rank_,
                                                       .ranks = ranks_,
                                                       .dealt = dealt_});
}

Loader& Training::loader() {
  if (!loader_) loader_ = make_loader();
  return *loader_;
}

void Training::micro_step(const Game::Turn& turn, const MicroBatch& micro_batch, int64_t epoch) {
  const Pass pass{.mode = Pass::Mode::train,
                  .seed = seed_,
                  .epoch = epoch,
                  .samples = micro_batch.indices,
                  .recompute = recompute_};
  for (const Player* player : turn)
    if (player->window.micro_batches() == 0) player->window.expect(micro_batch.window_size);
  // Players that step together are exchanged one after the other.
  if (micro_batch.ends_window && turn.size() == 1) turn.front()->window.expect_last();
  game_->micro_step(turn, micro_batch, pass, variant(epoch));
}

int64_t Training::steps() const {
  int64_t most = 0;
  for (const Player& player : game_->players())
    most = std::max(most, player.window.steps() / player.times);
  return most;
}

NamedTensors Training::named_tensors() const {
  NamedTensors all;
  for (size_t i = 0; i < networks_.size(); ++i)
    for (auto& [name, tensor] : accrue::named_tensors(networks_[i]->parameters))
      all.emplace_back(game_->players()[i].named(name), std::move(tensor));
  return all;
}

std::vector<const Parameters*> Training::all_parameters() const {
  std::vector<const Parameters*> all;
  for (const auto& network : networks_) all.push_back(&network->parameters);
  return all;
}

int64_t Training::variant(int64_t epoch) const {
  constexpr int64_t epochs = int64_t{1} << 40;
  const bool random = std::ranges::any_of(
      networks_, [](const auto& network) { return network->model->is_random(); });
  return halved_ * epochs + (random ? epoch : 0);
}

void Training::halve_micro_batch() {
  game_->abandon();
  if (device_ == Device::cuda) cuda::synchronize();  // copies out of the loader may be under way
  loader_.reset();
  if (device_ == Device::cuda) cuda::blocks().release_cached();
  batches_.micro = (batches_.micro + 1) / 2;
  ++halved_;
  loader_ = make_loader();
}

}  // namespace accrue
