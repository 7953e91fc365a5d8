#pragma once

#include <filesystem>
#include <string>

#include "core/inside.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// Loads the data set of --data to the cpu and checks that the model can learn it. Its classes are
// numbered as the classes of the request's weights are. Throws Error as Domain::load() does, and if
// its classes differ from the classes of the weights, unless a new head will learn them.
Datasets load_data(const Request& request, DataUse use, const Notices& notices);

// Throws Error if the network of `whose` was trained on pixels and the data has numbers, or the
// reverse, unless the request says how to normalize the pixels.
void check_inputs(const Dataset& data, Inputs learned, const std::string& whose,
                  const Request& request);

// Warns if the data has pixels and nothing says how those that the request's weights were trained
// on were normalized.
void warn_of_assumed_pixels(const Dataset& data, const Request& request, const Notices& notices);

// Reports what was found in the data, warns of assumed pixels, and normalizes pixels as the request
// says. Throws Error as check_inputs() does for the request's weights.
void take_in(Dataset& data, const Request& request, const Notices& notices);

// Reports that the names of the data's classes are used, if the file of the weights has no names
// and the data has.
void say_whose_classes(const Request& request, const Dataset& data, const Notices& notices);

// Completes the request with what the file of its weights records and the user did not set: the
// model, its width and normalization, the way to score, and the images and classes that the network
// was made for. Throws Error for a given setting that differs from the file, except for the way to
// score. A run that resumes reads its checkpoint instead of --init, so the file of --init may be
// gone.
Request with_settings_of_weights(const Request& request, const Notices& notices);

// True for "owner/name" if no such path exists: it may be a model on Hugging Face's hub.
bool is_name_on_hub(const std::string& path);
bool is_gguf_file(const std::filesystem::path& path);

}  // namespace accrue
