#pragma once

#include <string>
#include <vector>

#include "fonts/zi2zi_game.h"
#include "train/domain.h"

namespace accrue::detail {

// The domain that draws characters of one font in the style of others, with zi2zi. It has the data
// sets of glyphs and the built-in strokes.
class Fonts : public Domain {
 public:
  // NetworkOptions, SampleSpec and StepOptions override some of its values.
  Zi2ziGame game;

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Fonts>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Fonts>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Fonts&>(other); }
  Settings settings(TrainingOptions& training) override;
  std::string networks_heading() const override { return "Font GAN"; }
  std::vector<DomainModel> models() const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // The drawings of images in styles.
  Example example(const Layer& network, const SampleSpec& sample, int64_t N) const override;
  std::vector<PlayerOptions> players(const NetworkOptions& options, const SampleSpec& sample,
                                     const StepOptions& step) const override;
  ObjectivePtr objective(const Dataset& data) const override;
  std::string where_it_answers() const override { return "glyphs are drawn by accrue font draw"; }
  Descriptions descriptions() const override;
  void check_run(int64_t windows) const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override { return {"strokes"}; }
  Datasets load(const DataRequest& request) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;

 private:
  Zi2ziOptions networks(const NetworkOptions& options, const SampleSpec& sample) const;
};

}  // namespace accrue::detail
