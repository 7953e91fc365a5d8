#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "device.h"
#include "thread.h"

namespace simt {
namespace {

bool done(const CUevent_st& event) { return event.record == nullptr || event.record->done; }

// The host can neither ask about nor wait for an event of a capture, because it never happens.
cudaError_t refuse_captured(const CUevent_st& event) {
  if (event.captured == nullptr) return cudaSuccess;
  for (const auto& stream : device().streams) {
    if (stream->capture.get() == event.captured) stream->capture->invalidated = true;
  }
  return cudaErrorCapturedEvent;
}

bool capturing(const CUstream_st& stream) { return stream.capture != nullptr; }

// A piece of work in the legacy stream runs after all earlier work in blocking streams, and the
// other way round.
bool in_turn(const CUstream_st& stream) {
  Device& d = device();
  const uint64_t number = stream.queue.front().number;
  const auto older = [&](const CUstream_st& other) {
    return !other.queue.empty() && other.queue.front().number < number;
  };
  if (&stream != &d.legacy) return !stream.blocking || !older(d.legacy);
  return std::ranges::none_of(d.streams,
                              [&](const auto& other) { return other->blocking && older(*other); });
}

bool runnable(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  const Queued& next = stream.queue.front();
  return in_turn(stream) && (next.after == nullptr || next.after->done) &&
         (next.met == nullptr || next.met());
}

// Runs the next piece of work of a stream drawn at random from the streams that can run one.
// Returns false if there is none: then the oldest piece of work waits for other processes.
bool run_one() {
  Device& d = device();
  std::vector<CUstream_st*> streams;
  for_each_stream([&](CUstream_st& stream) {
    if (runnable(stream)) streams.push_back(&stream);
  });
  if (streams.empty()) return false;
  CUstream_st& stream = *streams[d.random.below(streams.size())];
  const Queued next = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (next.work) next.work();
  if (next.completes) *next.completes = {true, std::chrono::steady_clock::now()};
  return true;
}

void forget_destroyed() {
  std::erase_if(device().streams,
                [](const auto& stream) { return stream->destroyed && stream->queue.empty(); });
}

// Makes the error the answer to every later call, and drops all work.
void fail_for_good(cudaError_t error, const std::string& what) {
  device().sticky = simt::report(error, what);
  drop_everything();
}

// Calls run(), which calls run_one().
template <class Run>
cudaError_t on_device(Run run) {
  const DeviceAccess access;
  try {
    run();
  } catch (const Failure& failure) {
    fail_for_good(failure.code, failure.what());
  } catch (...) {
    fail_for_good(cudaErrorLaunchFailure, "a kernel threw an exception");
    throw;
  }
  forget_destroyed();
  return device().sticky;
}

template <class Done>
cudaError_t run_until(Done done) {
  if (done()) return cudaSuccess;
  return on_device([&] {
    while (!done())
      if (!run_one()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
}

// How many pieces of work are queued in all streams.
size_t backlog() {
  size_t n = 0;
  for_each_stream([&](const CUstream_st& stream) { n += stream.queue.size(); });
  return n;
}

// Runs a random number of the queued pieces: the device may have done some of its work by now.
cudaError_t run_some() {
  const size_t n = backlog(), left = n - device().random.below(n + 1);
  return run_until([&] { return backlog() <= left; });
}

// Refuses work in the legacy stream while a blocking stream, for which it would have to wait,
// captures.
cudaError_t refuse_legacy_while_capturing() {
  cudaError_t error = cudaSuccess;
  for (const auto& stream : device().streams) {
    if (!stream->blocking || !capturing(*stream)) continue;
    stream->capture->invalidated = true;
    error = cudaErrorStreamCaptureImplicit;
  }
  return error;
}

cudaError_t queue(CUstream_st& stream, Queued queued) {
  if (&stream == &device().legacy) {
    if (const cudaError_t error = refuse_legacy_while_capturing()) return error;
  }
  queued.number = ++device().submitted;
  stream.queue.push_back(std::move(queued));
  return cudaSuccess;
}

// A call on one stream, with the stream resolved.
template <class Body>
cudaError_t stream_call(cudaStream_t handle, Body body) {
  return call([&] {
    CUstream_st* stream = find_stream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(*stream);
  });
}

}  // namespace

CUstream_st* find_stream(cudaStream_t handle) {
  Device& d = device();
  if (handle == nullptr || handle == cudaStreamLegacy) return &d.legacy;
  const bool known = std::ranges::any_of(
      d.streams, [&](const auto& stream) { return stream.get() == handle && !stream->destroyed; });
  if (!known) return nullptr;
  if (handle->device == device_of_thread()) return handle;
  report(cudaErrorInvalidResourceHandle,
         fmt::format("a stream of device {} is used by a thread on device {}: cudaSetDevice holds "
                     "for the thread that calls it",
                     handle->device, device_of_thread()));
  return nullptr;
}

cudaError_t submit(cudaStream_t handle, Work work) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!capturing(*stream)) return queue(*stream, {.work = std::move(work)});
  if (stream->capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  const Device& d = device();
  if (stream->capture->nodes.size() >= d.capture_limit && d.capture_refused_by == RefusedBy::call)
    return refuse_in_capture(*stream);
  stream->capture->nodes.push_back(std::move(work));
  return cudaSuccess;
}

cudaError_t submit_meeting(cudaStream_t handle, Work begin, std::function<bool()> met, Work end) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = refuse_in_capture(*stream)) return error;
  if (const cudaError_t error = queue(*stream, {.work = std::move(begin)})) return error;
  return queue(*stream, {.work = std::move(end), .met = std::move(met)});
}

void progress() {
  const std::scoped_lock lock(device().mutex);
  const auto has_meeting = [] {
    bool any = false;
    for_each_stream([&](const CUstream_st& stream) {
      any = any || std::ranges::any_of(stream.queue, [](const Queued& q) { return bool(q.met); });
    });
    return any;
  };
  if (!has_meeting()) return;
  on_device([&] {
    while (has_meeting() && run_one()) {
    }
  });
}

void drop_everything() {
  for_each_stream([](CUstream_st& stream) {
    for (const Queued& queued : stream.queue) {
      if (queued.completes) queued.completes->done = true;
    }
    stream.queue.clear();
  });
}

cudaError_t finish_stream(CUstream_st& stream) {
  return run_until([&] { return stream.queue.empty(); });
}

cudaError_t finish_all() {
  return run_until([] { return backlog() == 0; });
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
  return call([&] {
    const dim3 grid = config.gridDim, block = config.blockDim;
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads < 1 || threads > 1024) {
      return cudaErrorInvalidConfiguration;
    }
    if (grid.x < 1 || grid.x > 0x7fffffff || grid.y < 1 || grid.y > 65535 || grid.z < 1 ||
        grid.z > 65535) {
      return cudaErrorInvalidConfiguration;
    }
    if (config.dynamicSmemBytes != 0 || config.numAttrs != 0) return cudaErrorInvalidValue;
    // CUDA: "a kernel will fail to launch if it is executed with more threads per block than its
    // launch bound". Without one the compiler may use more registers than 1024 threads could have.
    if (const unsigned bound = launch_bounds(kernel); threads > bound) {
      return report(cudaErrorLaunchOutOfResources,
                    fmt::format("kernel {} is launched in blocks of {} threads, but {}",
                                kernel_name(kernel), threads,
                                bound == 0 ? "states no __launch_bounds__"
                                           : fmt::format("its __launch_bounds__ allow {}", bound)));
    }
    ++device().launches.kernels;
    return submit(config.stream, [launch = Launch{grid, block, kernel, std::move(thread)}] {
      run_grid(launch, device().random);
    });
  });
}

}  // namespace simt

using namespace simt;

cudaError_t cudaDeviceSynchronize() {
  return call([&] {
    const cudaError_t error = refuse_while_any_captures();
    return error != cudaSuccess ? error : finish_all();
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&] {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    device().streams.push_back(std::make_unique<CUstream_st>());
    *stream = device().streams.back().get();
    (*stream)->blocking = flags == cudaStreamDefault;
    (*stream)->device = device_of_thread();
    return cudaSuccess;
  });
}

// Returns at once; the stream is gone when its work is done.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return stream_call(handle, [](CUstream_st& stream) {
    if (&stream == &device().legacy) return cudaErrorInvalidResourceHandle;
    stream.destroyed = true;
    stream.capture.reset();
    forget_destroyed();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return stream_call(handle, [](CUstream_st& stream) {
    if (const cudaError_t error = refuse_in_capture(stream)) return error;
    if (&stream == &device().legacy) {
      if (const cudaError_t error = refuse_legacy_while_capturing()) return error;
    }
    return finish_stream(stream);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return stream_call(handle, [](CUstream_st& stream) {
    if (const cudaError_t error = refuse_in_capture(stream)) return error;
    if (const cudaError_t error = run_some()) return error;
    return stream.queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return stream_call(handle, [&](CUstream_st& stream) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (capturing(stream) || event->captured != nullptr) {
      if (event->captured == stream.capture.get()) return cudaSuccess;  // in order already
      if (capturing(stream)) stream.capture->invalidated = true;
      return event->captured != nullptr ? cudaErrorStreamCaptureUnsupported
                                        : cudaErrorStreamCaptureIsolation;
    }
    return queue(stream, {.after = event->record});
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    *event = new CUevent_st;
    (*event)->device = device_of_thread();
    (*event)->timing = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return stream_call(handle, [&](CUstream_st& stream) {
    if (event == nullptr || event->device != device_of_thread())
      return cudaErrorInvalidResourceHandle;
    event->captured = stream.capture.get();
    if (capturing(stream)) return cudaSuccess;
    event->record = std::make_shared<Record>();
    return queue(stream, {.completes = event->record});
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = refuse_unsafe_in_capture()) return error;
    if (const cudaError_t error = refuse_captured(*event)) return error;
    return run_until([&] { return done(*event); });
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = refuse_unsafe_in_capture()) return error;
    if (const cudaError_t error = refuse_captured(*event)) return error;
    if (const cudaError_t error = run_some()) return error;
    return done(*event) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    if (ms == nullptr) return cudaErrorInvalidValue;
    for (const cudaEvent_t event : {start, end}) {
      if (event == nullptr || !event->timing || !event->record) {
        return cudaErrorInvalidResourceHandle;
      }
      if (!event->record->done) return cudaErrorNotReady;
    }
    *ms = std::chrono::duration<float, std::milli>(end->record->time - start->record->time).count();
    return cudaSuccess;
  });
}
