#include <nanobind/nanobind.h>

#include "core/build.h"
#include "core/ledger.h"
#include "python/expressions.h"
#include "python/interrupts.h"
#include "python/layers.h"
#include "python/network.h"
#include "python/onnx.h"
#include "python/texts.h"
#include "python/training.h"

namespace nb = nanobind;

NB_MODULE(_accrue, m) {
  m.doc() = "Trains any effective batch in the memory you have.";
  m.attr("__version__") = accrue::version();
  nb::exception<accrue::Error> error(m, "Error", PyExc_RuntimeError);
  error.doc() = "Its message says what was expected, what came, where, and what to do.";
  const nb::object bases = nb::make_tuple(error, nb::borrow(PyExc_MemoryError));
  nb::exception<accrue::OutOfMemory> memory(m, "OutOfMemory", bases);
  memory.doc() = "Less memory is available than needed; the message names the largest parts.";
  accrue::python::add_layers(m);
  accrue::python::add_expressions(m);
  accrue::python::add_networks(m);
  accrue::python::add_onnx(m);
  const accrue::python::FunctionDocs docs;
  accrue::python::add_training(m, docs);
  accrue::python::add_texts(m, docs);
  accrue::python::wait_for_work_at_the_end();
}
