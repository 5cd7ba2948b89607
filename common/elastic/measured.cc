#include "common/elastic/measured.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr uint32_t kNodesMax = 16;  // Step times of more nodes are those of so many.

// The placement as digits, one for each node, in the rotation that sorts first: the ranks form a
// ring, which begins anywhere.
std::string RingName(std::vector<uint32_t> ranks) {
  std::vector<uint32_t> first = ranks;
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::rotate(ranks.begin(), ranks.begin() + 1, ranks.end());
    first = std::min(first, ranks);
  }
  std::string name;
  for (uint32_t count : first) name += std::to_string(count);
  return name;
}

absl::StatusOr<double> ReadNumber(const std::string& file, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return Invalid(file + ": '" + Excerpt(text) + "' is not a number");
  return value;
}

absl::StatusOr<std::vector<std::vector<double>>> ReadNumbers(const std::string& name,
                                                             std::string_view text,
                                                             size_t columns) {
  std::vector<std::vector<double>> numbers;
  RT_ASSIGN_OR_RETURN(const auto rows, ReadCsv(name, text, columns));
  for (const std::vector<std::string>& row : rows) {
    numbers.emplace_back();
    for (size_t i = 0; i < columns; ++i) {
      RT_ASSIGN_OR_RETURN(const double value, ReadNumber(name, row[i]));
      numbers.back().push_back(value);
    }
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<std::string>>> ReadCsv(const std::string& name,
                                                              std::string_view text,
                                                              size_t columns) {
  std::vector<std::vector<std::string>> rows;
  size_t line = 0;
  for (const std::string& one : Split(text, '\n')) {
    ++line;
    if (line == 1 || Trim(one).empty()) continue;
    rows.push_back(Split(Trim(one), ','));
    if (rows.back().size() < columns)
      return Invalid(name + ":" + std::to_string(line) + ": " + std::to_string(columns) +
                         " columns are needed",
                     "compare it with the first line of the file");
  }
  if (rows.empty()) return Invalid(name + ": it has no rows", "is it the right file?");
  return rows;
}

absl::Status MeasuredApplication::ReadTimes(const ApplicationTexts& texts) {
  const std::string file = texts.name + "/placements.csv";
  RT_ASSIGN_OR_RETURN(const auto rows, ReadNumbers(file, texts.placements, 4));
  RT_ASSIGN_OR_RETURN(const auto names, ReadCsv(file, texts.placements, 4));
  double least = rows.front()[1], most = least;
  for (size_t i = 0; i < rows.size(); ++i) {
    placements_[names[i][0]].push_back({rows[i][1], {rows[i][2], rows[i][3]}});
    least = std::min(least, rows[i][1]);
    most = std::max(most, rows[i][1]);
  }
  batches_.local_min = static_cast<uint32_t>(least);
  batches_.local_max = texts.local_max > 0 ? texts.local_max : static_cast<uint32_t>(most);
  if (!texts.sizes.empty()) {
    RT_ASSIGN_OR_RETURN(const auto sizes, ReadNumbers(texts.name + "/sizes.csv", texts.sizes, 5));
    for (const std::vector<double>& row : sizes)
      sizes_[{static_cast<uint32_t>(row[0]), static_cast<uint32_t>(row[1])}].push_back(
          {row[2], {row[3], row[4]}});
  }
  const auto ascending = [](const Row& a, const Row& b) { return a.local_batch < b.local_batch; };
  for (auto& [placement, times] : placements_)
    std::stable_sort(times.begin(), times.end(), ascending);
  for (auto& [size, times] : sizes_) std::stable_sort(times.begin(), times.end(), ascending);
  return absl::OkStatus();
}

absl::Status MeasuredApplication::ReadValidations(const ApplicationTexts& texts) {
  if (texts.validations.empty()) return Invalid(texts.name + ": there is no validation-*.csv");
  size_t epochs = SIZE_MAX;
  for (const auto& [batch, text] : texts.validations) {
    const std::string file = texts.name + "/validation-" + std::to_string(batch) + ".csv";
    RT_ASSIGN_OR_RETURN(const auto rows, ReadNumbers(file, text, 5));
    Validation& one = validations_[batch];
    for (const std::vector<double>& row : rows) {
      one.progress.push_back(row[0]);
      one.noise.push_back({row[3], row[4]});
    }
    epochs = std::min(epochs, rows.size());
  }
  progress_.assign(1, 0);
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    double least = INFINITY;
    for (const auto& [batch, one] : validations_) least = std::min(least, one.progress[epoch]);
    progress_.push_back(least);
  }
  batches_.initial = validations_.begin()->first;
  batches_.most = validations_.rbegin()->first;
  return absl::OkStatus();
}

absl::StatusOr<MeasuredApplication> MeasuredApplication::Parse(const ApplicationTexts& texts) {
  MeasuredApplication application;
  application.name_ = texts.name;
  application.batches_.accumulates = true;
  RT_RETURN_IF_ERROR(application.ReadTimes(texts));
  RT_RETURN_IF_ERROR(application.ReadValidations(texts));
  const BatchLimits& batches = application.batches_;
  const auto possible = static_cast<uint32_t>(batches.most / batches.local_min);
  application.ranks_max_ = texts.ranks_max > 0 ? texts.ranks_max : possible;
  application.fixed_batch_ = texts.fixed_batch;
  return application;
}

absl::StatusOr<MeasuredApplication::Times> MeasuredApplication::StepOf(
    const std::vector<uint32_t>& ranks, uint32_t local_batch) const {
  const auto measured = placements_.find(RingName(ranks));
  const Rows* rows = measured == placements_.end() ? nullptr : &measured->second;
  if (rows == nullptr) {
    uint32_t all = 0;
    for (uint32_t count : ranks) all += count;
    const auto size = sizes_.find({std::min(static_cast<uint32_t>(ranks.size()), kNodesMax), all});
    if (size != sizes_.end()) rows = &size->second;
  }
  const bool is_known = rows != nullptr && local_batch >= rows->front().local_batch &&
                        local_batch <= rows->back().local_batch;
  if (!is_known)
    return absl::UnavailableError(name_ + " was not measured with " + std::to_string(local_batch) +
                                  " samples on each rank of " + RingName(ranks));
  if (rows->size() == 1) return rows->front().times;
  size_t i = 0;
  while (i + 2 < rows->size() && (*rows)[i + 1].local_batch < local_batch) ++i;
  const Row& low = (*rows)[i];
  const Row& high = (*rows)[i + 1];
  const double share = (local_batch - low.local_batch) / (high.local_batch - low.local_batch);
  return Times{low.times.step_s + share * (high.times.step_s - low.times.step_s),
               low.times.sync_s + share * (high.times.sync_s - low.times.sync_s)};
}

GradientNoise MeasuredApplication::NoiseOf(double batch, size_t epoch) const {
  auto high = validations_.lower_bound(static_cast<uint32_t>(std::ceil(batch - 1e-9)));
  if (high == validations_.end()) --high;
  auto low = high;
  if (high->first != batch && high != validations_.begin()) --low;
  const GradientNoise& above = high->second.noise[epoch];
  const GradientNoise& below = low->second.noise[epoch];
  if (low == high) return above;
  const double first = low->first, last = high->first;
  const auto between = [&](double a, double b) {
    return ((batch - first) * b + (last - batch) * a) / (last - first);
  };
  return {between(below.squared_norm, above.squared_norm), between(below.variance, above.variance)};
}

}  // namespace rt
