#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "python/arrays.h"

namespace accrue::python {

// Samples that come one by one from the caller's code or from a file, in place of an array: a Part
// of accrue._fetched. Threads of a RowStream read them before they are needed. Those hold the GIL
// only while the caller's code runs; rows of a file are read without it.

bool is_fetched(nb::handle object);
// The name that errors give to a data set of these parts: the type or function that one of them is
// fetched from, or else "arrays".
std::string name_of_given(std::initializer_list<nb::handle> parts);

// The field that `make` makes of an array [N, ...]. If `given` is fetched, `make` sees an array of
// its first sample, and the field's elements are read on demand. `what` names it in errors.
Field field_in(nb::handle given, const std::string& what,
               const std::function<Field(const Array&)>& make);

// Gives a data set with fetched fields the checksum of at most 64 samples, evenly spaced, so that a
// checkpoint does not read all of it.
void sign_fetched(Dataset& data);

// Makes a data set with fetched fields tell them the seed and the epoch in which it is trained on.
void tell_draws(Dataset& data);

}  // namespace accrue::python
