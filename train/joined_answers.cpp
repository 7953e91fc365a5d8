#include "train/joined_answers.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {

JoinedAnswers join_answers(const Tensor& own, int64_t samples, Ranks* ranks) {
  if (!ranks || ranks->count() == 1) return {own};
  const int64_t n = own.defined() ? own.size(0) : 0;
  if (own.defined() && is_meta(own.device()))
    return {Tensor::empty(own.shape().with(0, std::max(n, samples)), own.dtype(), own.device())};
  struct Share {
    int64_t answers, row_bytes;
  };
  const std::vector<Share> shares =
      ranks->all_of(Share{n, n > 0 ? static_cast<int64_t>(own.bytes()) / n : 0});
  int64_t N = 0, row_bytes = 0;
  for (const Share& share : shares) {
    check(N == 0 || share.answers == 0 || share.row_bytes == row_bytes,
          "one rank's answer to a sample has {} bytes, another's {}: expected as many", row_bytes,
          share.row_bytes);
    if (share.answers > 0) row_bytes = share.row_bytes;
    N += share.answers;
  }
  JoinedAnswers joined;
  joined.all = own.defined() ? Tensor::empty(own.shape().with(0, N), own.dtype(), own.device())
                             : Tensor::empty({N, row_bytes}, DType::u8, Device::cpu);
  int64_t begin = 0;
  for (int rank = 0; rank < ranks->count(); ++rank) {
    const int64_t end = begin + shares[static_cast<size_t>(rank)].answers;
    if (begin == end) continue;
    const Tensor part = joined.all.slice(begin, end);
    if (rank == ranks->rank()) {
      part.copy_from(own);
      joined.begin = begin;
    }
    ranks->broadcast(part, rank);
    begin = end;
  }
  return joined;
}

}  // namespace accrue
