#pragma once

#include <string>
#include <vector>

#include "images/augmentation.h"
#include "images/image_folder.h"
#include "images/segmentation.h"
#include "train/domain.h"

namespace accrue {

namespace detail {

// Whether the decoded images of a folder are kept in memory.
enum class CacheChoice { automatic, yes, no };
const std::map<std::string, CacheChoice>& cache_names();

// What networks of images learn: the labels or masks of the data, or to tell images apart
// (images/contrastive.h).
enum class ImageObjective { answers, simclr };

// What is asked of images, of any domain's data.
struct ImageRequest {
  std::string size;  // "32" or "48x64"; empty: that of the data
  std::string crop;  // likewise; empty: whole images
  Normalization pixels;
  // The weights that a command begins with have learned from images at their own size, and `size`
  // is nobody's wish.
  bool has_own_sizes = false;
};

// What weights say of images that nobody has brought to another size; without it they were
// stretched to "image".
inline constexpr const char *image_sizes_key = "image-sizes", *own_image_sizes = "own";

// Images with classes or with masks: the models of layers/models.h, the data sets of
// find_dataset().
class Images : public Domain {
 public:
  double hold_out = usual_hold_out;
  bool skip_bad = false;
  CacheChoice cache = CacheChoice::automatic;
  std::string mask_loss;  // "cross-entropy+dice"
  std::vector<double> class_weights;
  std::vector<std::string> classes;  // of masks or labels, their names
  std::optional<int64_t> ignore_mask;
  std::string augmentation;  // images/augmentation.h
  ImageObjective to_learn = ImageObjective::answers;
  double temperature = 0.5;      // of simclr
  int64_t embedding_size = 128;  // of simclr: the numbers with which a network answers
  std::string data_dir;
  ImageRequest request;
  int64_t depth = 3;  // of a U-Net: levels

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Images>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Images>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Images&>(other); }
  Settings settings(TrainingOptions& training) override;
  std::vector<DomainModel> models() const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // segmentation() with the losses that are asked for, or classification().
  ObjectivePtr objective(const Dataset& data) const override;
  Metadata seen(const DomainModel& model) const override;
  void see(const SampleSpec& learned, const Metadata& said,
           const std::set<std::string>& given) override;
  SampleSpec asked(const SampleSpec& learned, const std::set<std::string>& given) const override;
  std::optional<Normalization> pixels() const override { return request.pixels; }
  Descriptions descriptions() const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override;
  std::optional<std::filesystem::path> directory_of(const std::string& data) const override;
  bool heeds(const std::string& setting, const std::string& data) const override;
  Datasets load(const DataRequest& asked) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& asked) const override;
  void augment(Dataset& data, const DataRequest& asked) const override;

  ImageFolderOptions folder_options(const DataRequest& asked) const;
  // Throws Error where data has no images of the size that is asked for, or none to crop.
  void check_sizes(const Dataset& data, const DataRequest& asked) const;
  // The share that was asked for.
  std::optional<double> given_hold_out(const DataRequest& asked) const;
};

// True if the network answers with the classes of pixels.
bool answers_with_masks(const DomainModel& model);
// "cross-entropy+dice". Throws Error, which begins with --loss, for other words.
std::vector<MaskLoss> mask_losses_of(const std::string& text);
// Gives the classes of masks or labels these names, if there are some: one for each, and of numbers
// in memory maybe more. Throws Error for other numbers of names, and for classes that have names.
void name_classes(Datasets& data, const std::vector<std::string>& names);

}  // namespace detail

// Makes crops of what a model sees in crops.
void crop(Datasets& data, const detail::DomainModel& model, const detail::DataRequest& request);

}  // namespace accrue
