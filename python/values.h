#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "core/inside.h"
#include "train/settings.h"

namespace accrue::python {

namespace nb = nanobind;

std::string text_of(nb::handle object);
// The text of a str or a path. Throws Error, which names the argument, for anything else.
std::string path_of(nb::handle object, const std::string& argument,
                    const std::string& expected = "a path");
// The object's repr in one line, shortened for a message.
std::string shown(nb::handle object);

// An argument's value as the text that Setting::give() takes. Settings take these values:
//    flag     True or False
//    number   anything that Python takes for a number, a word that stands for one, or its text
//    choice   its word
//    text     a str, or a path if the setting is a file
//    several  a sequence, or text with commas
// Throws Error, which names the argument, for a value of another type.
std::string text_for(const Setting& setting, const std::string& argument, nb::handle value);

// Python's annotation for such values, for example "int | str".
std::string type_of(const Setting& setting);

}  // namespace accrue::python
