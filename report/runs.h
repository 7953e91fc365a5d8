#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace accrue {

// Reads a directory of `train --log-dir` for the page. The result has the run's summary, or for a
// run that has not ended the facts of its lines; and "curves", with a list as long as "step" for
// each number of a step: one set for a network that trains alone, or one for each network of a
// game, with its name as "player". Curves of more than `points` steps are thinned to means over as
// many stretches of equal length. Scores on the way are "scores", also lists. The latest sheet of
// drawings is "sheet": the "window" that it was drawn after, and the file as "png" in base64.
// Throws Error for a directory without such a log, and for a line other than the last that is not
// valid.
nlohmann::ordered_json read_run(const std::filesystem::path& directory, size_t points = 200);

}  // namespace accrue
