#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "core/inside.h"
#include "train/settings.h"

namespace accrue::python {

namespace nb = nanobind;

std::string text_of(nb::handle object);
// A path, or its text. Throws Error, which names the argument, for anything else.
std::string path_of(nb::handle object, const std::string& argument,
                    const std::string& expected = "a path");
// As a message shows it.
std::string shown(nb::handle object);

// An argument's value as the text that Setting::give() takes: of a flag True or False; of a number
// anything that Python takes for one, a word that stands for one, or its text; of a choice its
// word; of text a str, or a path where a file is meant; of several a sequence, or text with commas.
// Throws Error, which names the argument, for a value of another type.
std::string text_for(const Setting& setting, const std::string& argument, nb::handle value);

// What an annotation in Python says of such values.
std::string type_of(const Setting& setting);

}  // namespace accrue::python
