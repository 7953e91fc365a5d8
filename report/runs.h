#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace accrue {

// Reads a directory of `train --log-dir` for the page. The result has the run's summary; for a run
// that has not ended, facts from its log lines instead. "curves" has one set of lists for a network
// that trains alone, or one for each network of a game, with its name as "player". In a set, each
// number of a step has a list as long as "step". Curves of more than `points` steps are thinned:
// each point is the mean over one of `points` stretches of equal length. "scores" has lists of the
// scores during the run. "sheet" is the latest sheet of drawings: the "window" after which it was
// drawn, and the file as "png" in base64. Throws Error for a directory without such a log, and for
// an invalid line other than the last.
nlohmann::ordered_json read_run(const std::filesystem::path& directory, size_t points = 200);

}  // namespace accrue
