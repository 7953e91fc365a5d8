#include "tables/columns.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<Column>& columns) {
  Json all = Json::array();
  for (const Column& column : columns) {
    Json one{{"name", column.name}};
    if (column.classes.empty()) {
      one["mean"] = column.mean;
      one["std"] = column.std;
    } else {
      one["classes"] = column.classes;
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<Column> columns_in(const Json& all) {
  std::vector<Column> columns;
  for (const Json& one : all) {
    Column column{.name = one.at("name").get<std::string>()};
    if (one.contains("classes")) column.classes = one["classes"].get<std::vector<std::string>>();
    else {
      column.mean = one.at("mean").get<double>();
      column.std = one.at("std").get<double>();
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace

int64_t TableColumns::inputs() const {
  int64_t sum = 0;
  for (const Column& column : features) sum += column.width();
  return sum;
}

std::vector<std::string> TableColumns::names() const {
  std::vector<std::string> all;
  for (const Column& column : targets) all.push_back(column.name);
  return all;
}

std::string TableColumns::written() const {
  Json json{{"features", json_of(features)}, {"targets", json_of(targets)}, {"loss", loss}};
  if (!classes.empty()) json["classes"] = classes;
  return json.dump();
}

bool detail::may_be_written(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::type_error&) {
    return false;
  }
}

TableColumns TableColumns::read(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    TableColumns columns{.features = columns_in(json.at("features")),
                         .targets = columns_in(json.at("targets")),
                         .loss = json.at("loss").get<std::string>()};
    if (json.contains("classes")) columns.classes = json["classes"].get<std::vector<std::string>>();
    return columns;
  } catch (const Json::exception& error) {
    fail("the columns of a table, '{:.60}': {}", text, error.what());
  }
}

}  // namespace accrue
