#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace accrue {

// Reads a directory of `train --log-dir` for the page: the run's summary, or of a run that has not
// ended the facts of its lines; and "curves", of each number of a step a list as long as "step":
// one for a network that trains alone, one for each of a game with its name as "player". Curves of
// more than `points` steps are thinned to means over as many stretches of equal length. Scores on
// the way are "scores", lists likewise. The latest sheet of drawings is "sheet": the "window" that
// it was drawn after, and the file as "png" in base64. Throws Error for a directory without such a
// log, and for a line that is none, the last one excepted.
nlohmann::ordered_json read_run(const std::filesystem::path& directory, size_t points = 200);

}  // namespace accrue
