// cuDNN's convolutions against plain loops in double.

#include <cudnn.h>

#include <algorithm>
#include <cstdlib>

#include "runner.h"

namespace {

struct Shape {
  int N, C, H, W, K, R, S;
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int groups = 1;
  bool channels_last = false;

  cudnnTensorFormat_t format() const {
    return channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  }
  // The offset of an element of [n, c, h, w] in C planes of H x W.
  int at(int n, int c, int h, int w, int C, int H, int W) const {
    return channels_last ? ((n * H + h) * W + w) * C + c : ((n * C + c) * H + h) * W + w;
  }
  int filter_C() const { return C / groups; }
  int P() const { return (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1; }
  int Q() const { return (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1; }
  size_t x_size() const { return size_t(N) * C * H * W; }
  size_t w_size() const { return size_t(K) * filter_C() * R * S; }
  size_t y_size() const { return size_t(N) * K * P() * Q(); }

  // visit(x, w, y): every product of the convolution, by offsets.
  template <class Visit>
  void visit(Visit visit) const {
    for (int n = 0; n < N; ++n)
      for (int k = 0; k < K; ++k)
        for (int p = 0; p < P(); ++p)
          for (int q = 0; q < Q(); ++q)
            for (int c = 0; c < filter_C(); ++c)
              for (int r = 0; r < R; ++r)
                for (int s = 0; s < S; ++s) {
                  const int h = p * stride_h - pad_h + r * dilation_h;
                  const int w = q * stride_w - pad_w + s * dilation_w;
                  if (h < 0 || h >= H || w < 0 || w >= W) continue;
                  visit(at(n, k / (K / groups) * filter_C() + c, h, w, C, H, W),
                        at(k, c, r, s, filter_C(), R, S), at(n, k, p, q, K, P(), Q()));
                }
  }
};

struct Library {
  Library(const Shape& shape, cudnnDataType_t type) {
    const auto format = shape.format();
    REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateTensorDescriptor(&x) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateTensorDescriptor(&y) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateFilterDescriptor(&w) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateConvolutionDescriptor(&conv) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetTensor4dDescriptor(x, format, type, shape.N, shape.C, shape.H, shape.W) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetTensor4dDescriptor(y, format, type, shape.N, shape.K, shape.P(), shape.Q()) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetFilter4dDescriptor(w, type, format, shape.K, shape.filter_C(), shape.R,
                                       shape.S) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetConvolution2dDescriptor(conv, shape.pad_h, shape.pad_w, shape.stride_h,
                                            shape.stride_w, shape.dilation_h, shape.dilation_w,
                                            CUDNN_CROSS_CORRELATION, type) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetConvolutionGroupCount(conv, shape.groups) == CUDNN_STATUS_SUCCESS);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    cudnnDestroyConvolutionDescriptor(conv);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroy(handle);
  }

  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
};

// Small integers: the sums are exact in float, in any order.
template <class T>
std::vector<T> numbers(size_t n, int salt) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = int((i * 7 + salt) % 11) - 5;
  return values;
}

enum class Direction { forward, data, filter };

// Calls run(algorithm, workspace, bytes) for every algorithm that the library lists for the
// direction, or for the last resort if it lists none. run() returns whether the result is exact.
template <class Perf, class List, class Run>
void with_each_algorithm(const Library& lib, Perf last_resort, List list, Run run) {
  Perf results[8];
  int found = 0;
  const cudnnStatus_t listed = list(8, &found, results);
  CHECK(
      (found > 0 || listed == CUDNN_STATUS_SUCCESS || listed == CUDNN_STATUS_NOT_SUPPORTED_SHAPE));
  if (found > 0) {
    REQUIRE(found >= 4);
    CHECK(results[0].determinism == CUDNN_DETERMINISTIC);
    CHECK(results[1].determinism == CUDNN_NON_DETERMINISTIC);
  } else {
    results[found++] = last_resort;
  }
  for (int i = 0; i < found; ++i) {
    const Perf& at = results[i];
    Array<char> workspace(std::max<size_t>(at.memory, 1));
    for (const auto math : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH}) {
      REQUIRE(cudnnSetConvolutionMathType(lib.conv, math) == CUDNN_STATUS_SUCCESS);
      const bool also_listed = std::any_of(results, results + found, [&](const Perf& other) {
        return other.algo == at.algo && other.mathType == math;
      });
      if (!also_listed)
        CHECK(run(at.algo, workspace.data(), at.memory, false) == CUDNN_STATUS_NOT_SUPPORTED);
    }
    REQUIRE(cudnnSetConvolutionMathType(lib.conv, at.mathType) == CUDNN_STATUS_SUCCESS);
    if (at.memory > 0) {
      CHECK(run(at.algo, workspace.data(), at.memory - 1, false) == CUDNN_STATUS_BAD_PARAM);
    }
    REQUIRE(run(at.algo, workspace.data(), at.memory, i > 0 || found == 1) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
}

// An algorithm with a math type, to try if the library lists nothing.
template <class T, class Perf, class Algo>
Perf last_resort(Algo algo, size_t bytes) {
  Perf perf{};
  perf.algo = algo;
  perf.memory = bytes;
  perf.mathType = sizeof(T) == 8 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  return perf;
}

template <class T>
cudnnDataType_t data_type() {
  return sizeof(T) == 8 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// All algorithms of a direction; with beta 0 the target holds NaN before each.
template <class T>
void check_direction(Direction direction, const Shape& shape, T alpha, T beta) {
  const Library lib(shape, data_type<T>());
  std::vector<T> x = numbers<T>(shape.x_size(), 1), w = numbers<T>(shape.w_size(), 2),
                 y = numbers<T>(shape.y_size(), 3);
  std::vector<T>& target = direction == Direction::forward ? y
                           : direction == Direction::data  ? x
                                                           : w;
  std::vector<double> expected(target.size());
  shape.visit([&](int i, int j, int k) {
    if (direction == Direction::forward) expected[k] += double(x[i]) * double(w[j]);
    if (direction == Direction::data) expected[i] += double(w[j]) * double(y[k]);
    if (direction == Direction::filter) expected[j] += double(x[i]) * double(y[k]);
  });
  for (size_t i = 0; i < target.size(); ++i) {
    expected[i] = alpha * expected[i] + beta * double(target[i]);
    if (beta == 0) target[i] = NAN;
  }

  Array<T> dx(x), dw(w), dy(y);
  Array<T>& out = direction == Direction::forward ? dy : direction == Direction::data ? dx : dw;
  const auto run = [&](auto start) {
    return [&, start](auto algo, void* workspace, size_t bytes, bool exact) {
      const size_t size = target.size() * sizeof(T);
      REQUIRE(cudaMemcpy(out.data(), target.data(), size, cudaMemcpyHostToDevice) == cudaSuccess);
      const cudnnStatus_t status = start(algo, workspace, bytes);
      if (status != CUDNN_STATUS_SUCCESS) return status;
      const std::vector<T> got = out.read();
      CHECK(std::equal(got.begin(), got.end(), expected.begin()) == exact);
      return status;
    };
  };
  if (direction == Direction::forward) {
    with_each_algorithm(
        lib,
        last_resort<T, cudnnConvolutionFwdAlgoPerf_t>(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0),
        [&](auto... args) {
          return cudnnGetConvolutionForwardAlgorithm_v7(lib.handle, lib.x, lib.w, lib.conv, lib.y,
                                                        args...);
        },
        run([&](auto algo, void* workspace, size_t bytes) {
          return cudnnConvolutionForward(lib.handle, &alpha, lib.x, dx.data(), lib.w, dw.data(),
                                         lib.conv, algo, workspace, bytes, &beta, lib.y, dy.data());
        }));
  } else if (direction == Direction::data) {
    with_each_algorithm(
        lib,
        last_resort<T, cudnnConvolutionBwdDataAlgoPerf_t>(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 1024),
        [&](auto... args) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(lib.handle, lib.w, lib.y, lib.conv,
                                                             lib.x, args...);
        },
        run([&](auto algo, void* workspace, size_t bytes) {
          return cudnnConvolutionBackwardData(lib.handle, &alpha, lib.w, dw.data(), lib.y,
                                              dy.data(), lib.conv, algo, workspace, bytes, &beta,
                                              lib.x, dx.data());
        }));
  } else {
    with_each_algorithm(
        lib,
        last_resort<T, cudnnConvolutionBwdFilterAlgoPerf_t>(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                                            1024),
        [&](auto... args) {
          return cudnnGetConvolutionBackwardFilterAlgorithm_v7(lib.handle, lib.x, lib.y, lib.conv,
                                                               lib.w, args...);
        },
        run([&](auto algo, void* workspace, size_t bytes) {
          return cudnnConvolutionBackwardFilter(lib.handle, &alpha, lib.x, dx.data(), lib.y,
                                                dy.data(), lib.conv, algo, workspace, bytes, &beta,
                                                lib.w, dw.data());
        }));
  }
}

const Shape plain{2, 3, 5, 6, 4, 3, 2, 0, 0, 1, 1, 1, 1};
const Shape shapes[] = {plain,
                        {2, 3, 5, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1},
                        {3, 2, 7, 8, 3, 3, 3, 1, 2, 2, 3, 1, 1},
                        {1, 2, 9, 8, 2, 3, 2, 2, 1, 1, 2, 2, 3},
                        {2, 4, 3, 3, 5, 1, 1, 0, 0, 1, 1, 1, 1},
                        {2, 4, 5, 6, 6, 3, 2, 1, 0, 1, 2, 1, 1, 2},
                        {2, 8, 5, 6, 8, 3, 3, 1, 1, 1, 1, 1, 1, 2},
                        {2, 3, 5, 6, 6, 3, 3, 1, 1, 2, 2, 1, 1, 3}};
// With channels last.
const Shape plain_last{2, 3, 5, 6, 4, 3, 2, 0, 0, 1, 1, 1, 1, 1, true};
const Shape shapes_last[] = {plain_last,
                             {2, 8, 5, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, true},
                             {3, 2, 7, 8, 3, 3, 3, 1, 2, 2, 3, 1, 1, 1, true},
                             {2, 4, 3, 3, 8, 1, 1, 0, 0, 1, 1, 1, 1, 1, true}};

}  // namespace

TEMPLATE_TEST_CASE("cuDNN convolves in every direction", "[simt]", float, double) {
  const FreshDevice fresh;
  for (const Shape& shape : shapes) {
    for (const Direction direction : {Direction::forward, Direction::data, Direction::filter}) {
      for (const TestType beta : {0, 1}) {
        CAPTURE(&shape - shapes, int(direction), beta);
        check_direction<TestType>(direction, shape, 1, beta);
        check_direction<TestType>(direction, shape, -2, beta);
      }
    }
  }
}

TEST_CASE("cuDNN convolves images with channels last", "[simt]") {
  const FreshDevice fresh;
  for (const Shape& shape : shapes_last)
    for (const Direction direction : {Direction::forward, Direction::data, Direction::filter})
      for (const float beta : {0.0f, 1.0f}) {
        CAPTURE(&shape - shapes_last, int(direction), beta);
        check_direction<float>(direction, shape, -2, beta);
      }
}

TEST_CASE("cuDNN tells the output's size", "[simt]") {
  for (const Shape& shape : shapes) {
    const Library lib(shape, CUDNN_DATA_FLOAT);
    int N, C, H, W;
    REQUIRE(cudnnGetConvolution2dForwardOutputDim(lib.conv, lib.x, lib.w, &N, &C, &H, &W) ==
            CUDNN_STATUS_SUCCESS);
    CHECK((N == shape.N && C == shape.K && H == shape.P() && W == shape.Q()));
  }
}

TEST_CASE("cuDNN refuses what does not fit or is not supported", "[simt]") {
  const Library lib(plain, CUDNN_DATA_FLOAT);
  size_t bytes = 0;
  const auto judge = [&] {
    return cudnnGetConvolutionForwardWorkspaceSize(lib.handle, lib.x, lib.w, lib.conv, lib.y,
                                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                                   &bytes);
  };
  const auto set_y = [&](cudnnDataType_t type, int N, int W) {
    return cudnnSetTensor4dDescriptor(lib.y, CUDNN_TENSOR_NCHW, type, N, plain.K, plain.P(), W);
  };
  const auto set_conv = [&](int pad, cudnnConvolutionMode_t mode) {
    return cudnnSetConvolution2dDescriptor(lib.conv, pad, 0, 1, 1, 1, 1, mode, CUDNN_DATA_FLOAT);
  };
  CHECK(judge() == CUDNN_STATUS_SUCCESS);
  REQUIRE(set_y(CUDNN_DATA_FLOAT, plain.N, plain.Q() + 1) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set_y(CUDNN_DATA_FLOAT, plain.N + 1, plain.Q()) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set_y(CUDNN_DATA_DOUBLE, plain.N, plain.Q()) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set_y(CUDNN_DATA_FLOAT, plain.N, plain.Q()) == CUDNN_STATUS_SUCCESS);
  REQUIRE(set_conv(1, CUDNN_CROSS_CORRELATION) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set_conv(0, CUDNN_CONVOLUTION) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(set_conv(-1, CUDNN_CROSS_CORRELATION) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set_conv(0, CUDNN_CROSS_CORRELATION) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnSetConvolutionGroupCount(lib.conv, 0) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(cudnnSetConvolutionGroupCount(lib.conv, plain.C) == CUDNN_STATUS_SUCCESS);
  CHECK(judge() == CUDNN_STATUS_BAD_PARAM);  // the filters see all channels
  CHECK(set_y(CUDNN_DATA_FLOAT, 0, 1) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE("cuDNN refuses mixed formats, and doubles or groups with channels last", "[simt]") {
  const auto judge = [](const Library& lib) {
    size_t bytes = 0;
    return cudnnGetConvolutionForwardWorkspaceSize(lib.handle, lib.x, lib.w, lib.conv, lib.y,
                                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                                   &bytes);
  };
  const Library lib(plain_last, CUDNN_DATA_FLOAT);
  CHECK(judge(lib) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnSetFilter4dDescriptor(lib.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, plain.K, plain.C,
                                     plain.R, plain.S) == CUDNN_STATUS_SUCCESS);
  CHECK(judge(lib) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(judge(Library(plain_last, CUDNN_DATA_DOUBLE)) == CUDNN_STATUS_NOT_SUPPORTED);
  Shape grouped = plain_last;
  grouped.C = grouped.groups = 2;
  CHECK(judge(Library(grouped, CUDNN_DATA_FLOAT)) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("cuDNN refuses pointers between 16 bytes", "[simt]") {
  const FreshDevice fresh;
  const Library lib(plain, CUDNN_DATA_FLOAT);
  REQUIRE(cudnnSetConvolutionMathType(lib.conv, CUDNN_FMA_MATH) == CUDNN_STATUS_SUCCESS);
  Array<float> x(plain.x_size() + 4), w(plain.w_size() + 4), y(plain.y_size() + 4);
  Array<float> workspace(1024);
  const float alpha = 1, beta = 0;
  const auto run = [&](int x_at, int w_at, int y_at, int workspace_at) {
    return cudnnConvolutionBackwardData(
        lib.handle, &alpha, lib.w, w.data() + w_at, lib.y, y.data() + y_at, lib.conv,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace.data() + workspace_at, 1024, &beta, lib.x,
        x.data() + x_at);
  };
  CHECK(run(0, 0, 0, 0) == CUDNN_STATUS_SUCCESS);
  CHECK(run(4, 4, 4, 64) == CUDNN_STATUS_SUCCESS);
  CHECK(run(1, 0, 0, 0) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(run(0, 2, 0, 0) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(run(0, 0, 3, 0) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(run(0, 0, 0, 4) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("cuDNN's tensor cores transpose 16-bit operands in the workspace", "[simt]") {
  const Shape shape{3, 5, 6, 7, 9, 3, 3, 1, 1, 1, 1, 1, 1};
  const Library lib(shape, CUDNN_DATA_HALF);
  REQUIRE(cudnnSetConvolution2dDescriptor(lib.conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT) == CUDNN_STATUS_SUCCESS);
  cudnnConvolutionBwdFilterAlgoPerf_t results[8];
  int found = 0;
  REQUIRE(cudnnGetConvolutionBackwardFilterAlgorithm_v7(lib.handle, lib.x, lib.y, lib.conv, lib.w,
                                                        8, &found,
                                                        results) == CUDNN_STATUS_SUCCESS);
  const auto* at = std::find_if(results, results + found, [](const auto& result) {
    return result.mathType == CUDNN_TENSOR_OP_MATH;
  });
  REQUIRE(at != results + found);
  // Channels are rounded up to multiples of 8: from 5 to 8, and from 9 to 16. A sum over 3 images
  // of 42 pixels is split in 3.
  CHECK(at->memory ==
        2 * (3 * 8 * 42 + 3 * 16 * 42 + 2 * 8 * 16 * 9) + 3 * sizeof(float) * 8 * 16 * 9);
}

TEST_CASE("cuDNN's tensor cores copy what has channels last only to fill up eights", "[simt]") {
  for (const int C : {5, 8}) {
    const Shape shape{3, C, 6, 7, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true};
    const Library lib(shape, CUDNN_DATA_FLOAT);
    REQUIRE(cudnnSetConvolutionMathType(lib.conv, CUDNN_TENSOR_OP_MATH) == CUDNN_STATUS_SUCCESS);
    size_t bytes = 0;
    REQUIRE(cudnnGetConvolutionForwardWorkspaceSize(
                lib.handle, lib.x, lib.w, lib.conv, lib.y,
                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes) == CUDNN_STATUS_SUCCESS);
    CHECK(bytes == sizeof(float) * ((C == 5 ? 3 * 8 * 42 : 0) + 2 * 8 * 16 * 9));
  }
}

TEST_CASE("cuDNN has no algorithm for padding all around a window", "[simt]") {
  const Shape shape{1, 1, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1};
  const Library lib(shape, CUDNN_DATA_FLOAT);
  cudnnConvolutionFwdAlgoPerf_t results[8];
  int found = -1;
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(lib.handle, lib.x, lib.w, lib.conv, lib.y, 8, &found,
                                               results) == CUDNN_STATUS_SUCCESS);
  CHECK(found == 0);
  size_t bytes = 0;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(lib.handle, lib.x, lib.w, lib.conv, lib.y,
                                                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                                &bytes) == CUDNN_STATUS_NOT_SUPPORTED_PADDING);
}

TEST_CASE("cuDNN refuses tensors of 2^31 elements", "[simt]") {
  const Library lib(plain, CUDNN_DATA_HALF);
  const auto set_x = [&](int N) {
    return cudnnSetTensor4dDescriptor(lib.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, N, 2, 1 << 10,
                                      1 << 10);
  };
  CHECK(set_x((1 << 10) - 1) == CUDNN_STATUS_SUCCESS);
  CHECK(set_x(1 << 10) == CUDNN_STATUS_NOT_SUPPORTED);
  simt::set_largest_tensor(1 << 21);
  CHECK(set_x(2) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(set_x(1) == CUDNN_STATUS_SUCCESS);
  simt::set_largest_tensor((size_t(1) << 31) - 1);
}

TEST_CASE("cuDNN is gone before objects made earlier than its handle", "[simt]") {
  struct Keeper {
    cudnnHandle_t handle = nullptr;
    ~Keeper() { cudnnDestroy(handle); }
  };
  const std::string report = report_of_death([] {
    static Keeper keeper;
    cudnnCreate(&keeper.handle);
    std::exit(0);
  });
  CHECK_THAT(report, ContainsSubstring("cuDNN was called at exit, when the library was gone"));
}
