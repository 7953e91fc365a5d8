#include "core/offload.h"

#include "core/memory.h"

namespace accrue {

thread_local constinit Offload* Offload::of_this_thread = nullptr;

void Offload::add(const std::shared_ptr<Storage>& storage) {
  const Category category = storage->category();
  if (category == Category::activations || category == Category::data) storages_.push_back(storage);
}

void Offload::move_to_host() {
  std::erase_if(storages_, [](const std::weak_ptr<Storage>& one) {
    const std::shared_ptr<Storage> storage = one.lock();
    if (storage) storage->move_to_host();
    return !storage;
  });
}

}  // namespace accrue
