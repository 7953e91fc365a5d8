#include "accumulate/module_buffers.h"

#include "core/inside.h"

namespace accrue {

ModuleBuffers::ModuleBuffers(const Parameters& parameters, bool drops_micro_batches)
    : buffers_(parameters.buffers()) {
  if (buffers_.numel() == 0) return;
  const MemoryScope scope("window");
  const auto copy = [&] {
    return Tensor::empty(buffers_.shape(), buffers_.dtype(), buffers_.device(),
                         Category::parameters);
  };
  after_step_ = copy();
  if (drops_micro_batches) after_micro_batch_ = copy();
  remember();
}

void ModuleBuffers::remember() {
  if (after_step_.defined()) after_step_.copy_from(buffers_);
  remember_for_micro_batch();
}

void ModuleBuffers::remember_for_micro_batch() {
  if (after_micro_batch_.defined()) after_micro_batch_.copy_from(buffers_);
}

void ModuleBuffers::restore() {
  if (!after_step_.defined()) return;
  buffers_.copy_from(after_step_);
  remember_for_micro_batch();
}

void ModuleBuffers::settle_step(const View& state) {
  if (after_step_.defined())
    settle_buffers(buffers_.view(), after_step_.view(), state, Transaction::step);
  remember_for_micro_batch();
}

void ModuleBuffers::settle_micro_batch(const View& state) {
  if (after_micro_batch_.defined())
    settle_buffers(buffers_.view(), after_micro_batch_.view(), state, Transaction::micro_batch);
}

}  // namespace accrue
