// cuDNN's convolutions against plain loops in double.

#include <cudnn.h>

#include <algorithm>

#include "runner.h"

namespace {

struct Shape {
  int N, C, H, W, K, R, S;
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;

  int P() const { return (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1; }
  int Q() const { return (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1; }
  size_t x_size() const { return size_t(N) * C * H * W; }
  size_t w_size() const { return size_t(K) * C * R * S; }
  size_t y_size() const { return size_t(N) * K * P() * Q(); }

  // visit(x, w, y): every product of the convolution, by offsets.
  template <class Visit>
  void visit(Visit visit) const {
    for (int n = 0; n < N; ++n)
      for (int k = 0; k < K; ++k)
        for (int p = 0; p < P(); ++p)
          for (int q = 0; q < Q(); ++q)
            for (int c = 0; c < C; ++c)
              for (int r = 0; r < R; ++r)
                for (int s = 0; s < S; ++s) {
                  const int h = p * stride_h - pad_h + r * dilation_h;
                  const int w = q * stride_w - pad_w + s * dilation_w;
                  if (h < 0 || h >= H || w < 0 || w >= W) continue;
                  visit(((n * C + c) * H + h) * W + w, ((k * C + c) * R + r) * S + s,
                        ((n * K + k) * P() + p) * Q() + q);
                }
  }
};

struct Library {
  Library(const Shape& shape, cudnnDataType_t type) {
    const auto nchw = CUDNN_TENSOR_NCHW;
    REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateTensorDescriptor(&x) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateTensorDescriptor(&y) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateFilterDescriptor(&w) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateConvolutionDescriptor(&conv) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetTensor4dDescriptor(x, nchw, type, shape.N, shape.C, shape.H, shape.W) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetTensor4dDescriptor(y, nchw, type, shape.N, shape.K, shape.P(), shape.Q()) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetFilter4dDescriptor(w, type, nchw, shape.K, shape.C, shape.R, shape.S) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetConvolution2dDescriptor(conv, shape.pad_h, shape.pad_w, shape.stride_h,
                                            shape.stride_w, shape.dilation_h, shape.dilation_w,
                                            CUDNN_CROSS_CORRELATION, type) == CUDNN_STATUS_SUCCESS);
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

// Runs every algorithm that the library lists for the direction: run(algorithm, workspace, bytes).
template <class Perf, class List, class Run>
void with_each_algorithm(List list, Run run) {
  Perf results[8];
  int found = 0;
  REQUIRE(list(8, &found, results) == CUDNN_STATUS_SUCCESS);
  REQUIRE(found == 3);
  CHECK(results[0].determinism == CUDNN_NON_DETERMINISTIC);
  CHECK(results[1].memory > results[2].memory);
  for (int i = 0; i < found; ++i) {
    CHECK((i == 0 || results[i].determinism == CUDNN_DETERMINISTIC));
    Array<char> workspace(std::max<size_t>(results[i].memory, 1));
    if (results[i].memory > 0) {
      CHECK(run(results[i].algo, workspace.data(), results[i].memory - 1) ==
            CUDNN_STATUS_BAD_PARAM);
    }
    REQUIRE(run(results[i].algo, workspace.data(), results[i].memory) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
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
    return [&, start](auto algo, void* workspace, size_t bytes) {
      const size_t size = target.size() * sizeof(T);
      REQUIRE(cudaMemcpy(out.data(), target.data(), size, cudaMemcpyHostToDevice) == cudaSuccess);
      const cudnnStatus_t status = start(algo, workspace, bytes);
      if (status != CUDNN_STATUS_SUCCESS) return status;
      const std::vector<T> got = out.read();
      CHECK(std::equal(got.begin(), got.end(), expected.begin()));
      return status;
    };
  };
  if (direction == Direction::forward) {
    with_each_algorithm<cudnnConvolutionFwdAlgoPerf_t>(
        [&](auto... args) {
          return cudnnGetConvolutionForwardAlgorithm_v7(lib.handle, lib.x, lib.w, lib.conv, lib.y,
                                                        args...);
        },
        run([&](auto algo, void* workspace, size_t bytes) {
          return cudnnConvolutionForward(lib.handle, &alpha, lib.x, dx.data(), lib.w, dw.data(),
                                         lib.conv, algo, workspace, bytes, &beta, lib.y, dy.data());
        }));
  } else if (direction == Direction::data) {
    with_each_algorithm<cudnnConvolutionBwdDataAlgoPerf_t>(
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
    with_each_algorithm<cudnnConvolutionBwdFilterAlgoPerf_t>(
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
                        {2, 4, 3, 3, 5, 1, 1, 0, 0, 1, 1, 1, 1}};

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
  CHECK(set_y(CUDNN_DATA_FLOAT, 0, 1) == CUDNN_STATUS_BAD_PARAM);
}
