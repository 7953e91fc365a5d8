#pragma once

#include <string>
#include <vector>

#include "images/augmentation.h"
#include "images/image_folder.h"
#include "images/segmentation.h"
#include "kernels/channels.h"
#include "train/domain.h"
#include "train/label_options.h"

namespace accrue {

namespace detail {

// Whether the decoded images of a folder are kept in memory.
enum class CacheChoice { automatic, yes, no };
const std::map<std::string, CacheChoice>& cache_names();
const std::map<std::string, Channels>& channels_names();

// The task of a network of images: to answer with the labels or masks of the data, or to tell
// images apart (images/contrastive.h).
enum class ImageObjective { answers, simclr };

// The size, crop and normalization of images that the user asks for, also in other domains.
struct ImageRequest {
  std::string size;  // "32" or "48x64"; empty: the size of the data
  std::string crop;  // likewise; empty: whole images
  Normalization pixels;
  // True if the weights that a command begins with have learned from images at their own sizes.
  // Then `size` is the weights' size, and the user has not asked for it.
  bool has_own_sizes = false;
};

// The key and value in the metadata of weights that say that images were not resized. Without the
// key they were resized to the shape under the key "image" (data/sample_spec.h).
inline constexpr const char *image_sizes_key = "image-sizes", *own_image_sizes = "own";

// The domain of images with classes or with masks. Its models are in layers/models.h, and
// find_dataset() finds its data sets.
class Images : public Domain {
 public:
  double hold_out = usual_hold_out;
  bool skip_bad = false;
  CacheChoice cache = CacheChoice::automatic;
  std::string mask_loss;             // "cross-entropy+dice"
  LabelOptions labels;               // class weights also of masks
  std::vector<std::string> classes;  // of masks or labels, their names
  std::optional<int64_t> ignore_mask;
  std::string augmentation;  // images/augmentation.h
  ImageObjective to_learn = ImageObjective::answers;
  double temperature = 0.5;      // of simclr
  int64_t embedding_size = 128;  // of simclr: numbers in a network's answer
  std::string data_dir;
  ImageRequest request;
  int64_t depth = 3;  // levels of a U-Net
  Channels channels = Channels::first;

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Images>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Images>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Images&>(other); }
  Settings settings(TrainingOptions& training) override;
  std::vector<DomainModel> models() const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // segmentation() with the losses that are asked for, or classification() of the labels.
  ObjectivePtr objective(const Dataset& data) const override;
  Metadata seen(const DomainModel& model) const override;
  void see(const SampleSpec& learned, const Metadata& said,
           const std::set<std::string>& given) override;
  SampleSpec asked(const SampleSpec& learned, const std::set<std::string>& given) const override;
  Metadata taught_by(const Dataset& data) const override { return labels.taught_by(data); }
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
  // Throws Error if the user gave a size that the data does not have, or a crop for data without
  // images.
  void check_sizes(const Dataset& data, const DataRequest& asked) const;
  // The share that the user gave; nothing without one.
  std::optional<double> given_hold_out(const DataRequest& asked) const;
};

// True if the network answers with the classes of pixels.
bool answers_with_masks(const DomainModel& model);
// "cross-entropy+dice". Throws Error, which begins with --loss, for other words.
std::vector<MaskLoss> mask_losses_of(const std::string& text);
// Gives the classes of masks or labels these names; none leaves them as they are. There must be one
// name for each class. There may be more names if the classes are indices without values in files
// (Field::class_values). Throws Error for another number of names, for equal names, for data
// without labels and masks, and for labels that have names already.
void name_classes(Datasets& data, const std::vector<std::string>& names);

}  // namespace detail

// Crops the data to the size that the user gave, if any. Training crops the training split, and
// models that answer with classes see crops of both splits. Throws Error if the user gives a crop
// to score or predict masks.
void crop(Datasets& data, const detail::DomainModel& model, const detail::DataRequest& request);

}  // namespace accrue
