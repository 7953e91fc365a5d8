#pragma once

#include <filesystem>
#include <string>

#include "core/inside.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// The data set of --data, on the cpu, checked to be one that the model can learn, with its classes
// numbered as those of the weights that the command begins with. Throws Error as Domain::load()
// does, and for other classes than theirs, unless a new head is to learn them.
Datasets load_data(const Request& request, DataUse use, const Notices& notices);

// Throws Error if the network of `whose` has learned from pixels and the data has numbers, or the
// reverse, unless the request says how the pixels become what it has learned from.
void check_inputs(const Dataset& data, Inputs learned, const std::string& whose,
                  const Request& request);

// Says what was found, and has pixels normalized as the request says. Throws Error as
// check_inputs() does for the weights that the command begins with.
void take_in(Dataset& data, const Request& request, const Notices& notices);

// Says that weights whose file does not name the network's classes are taken to have those of the
// data, if these have names.
void say_whose_classes(const Request& request, const Dataset& data, const Notices& notices);

// The request with the model, its width and the normalization of the weights that training or
// evaluation starts from, and how they are scored, as far as their file says them and they were not
// given, and with the images and classes that it was of. Throws Error for those that were given
// otherwise, but for how they are scored. A run that resumes reads its checkpoint instead of
// --init, which need not exist any more.
Request with_settings_of_weights(const Request& request, const Notices& notices);

// True for "owner/name", which is no path here, but may be that of a model on Hugging Face's hub.
bool is_name_on_hub(const std::string& path);
bool is_gguf_file(const std::filesystem::path& path);

}  // namespace accrue
