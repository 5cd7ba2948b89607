#include "common/search/evolution.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"

namespace rt {
namespace {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

// Draws outside the cube before a point is moved to its surface.
constexpr int kDrawsOutsideMax = 20;
// A step is cut to the length of a usual one and this: an evaluated point may come from an earlier
// distribution, or from somebody else.
constexpr double kStepExcess = 3;
// Of the eigenvalues, as a part of the largest: the condition that doubles bear.
constexpr double kEigenvalueMin = 1e-16;
// A distribution wider than the cube gains nothing.
constexpr double kReachMax = 0.5;

Eigen::Map<Vector> AsVector(std::vector<double>& values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}
Eigen::Map<const Vector> AsVector(const std::vector<double>& values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}
Eigen::Map<Matrix> AsMatrix(std::vector<double>& values, size_t n) {
  return {values.data(), static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)};
}
Eigen::Map<const Matrix> AsMatrix(const std::vector<double>& values, size_t n) {
  return {values.data(), static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)};
}

std::vector<double> Identity(size_t n) {
  std::vector<double> matrix(n * n, 0);
  for (size_t i = 0; i < n; ++i) matrix[i * n + i] = 1;
  return matrix;
}

double Length(const std::vector<double>& vector) {
  double squares = 0;
  for (const double each : vector) squares += each * each;
  return std::sqrt(squares);
}

}  // namespace

Evolution::Evolution(size_t axes) : axes_(axes) {}

void Evolution::SetPopulation(size_t population) {
  population_ = population;
  const size_t parents = population / 2;
  weights_.assign(parents, 0);
  const double middle = Log((static_cast<double>(population) + 1) / 2);
  double total = 0, squares = 0;
  for (size_t i = 0; i < parents; ++i) {
    weights_[i] = middle - Log(static_cast<double>(i) + 1);
    total += weights_[i];
  }
  for (double& weight : weights_) {
    weight /= total;
    squares += weight * weight;
  }
  const double d = static_cast<double>(axes_);
  effective_ = 1 / squares;
  sigma_rate_ = (effective_ + 2) / (d + effective_ + 5);
  sigma_damping_ = 1 + 2 * std::max(0.0, std::sqrt((effective_ - 1) / (d + 1)) - 1) + sigma_rate_;
  path_rate_ = (4 + effective_ / d) / (d + 4 + 2 * effective_ / d);
  rank_one_ = 2 / ((d + 1.3) * (d + 1.3) + effective_);
  rank_mu_ = std::min(1 - rank_one_,
                      2 * (effective_ - 2 + 1 / effective_) / ((d + 2) * (d + 2) + effective_));
  expected_length_ = std::sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d));
}

void Evolution::Start(const Point& mean, double sigma, size_t population) {
  SetPopulation(population);
  mean_ = mean;
  sigma_ = sigma;
  generation_ = 0;
  sigma_path_.assign(axes_, 0);
  path_.assign(axes_, 0);
  covariance_ = basis_ = Identity(axes_);
  scales_.assign(axes_, 1);
}

Point Evolution::Draw(Rng& rng) const {
  Point point(axes_);
  std::vector<double> normal(axes_);
  for (int draw = 0; draw < kDrawsOutsideMax; ++draw) {
    for (size_t i = 0; i < axes_; ++i)
      normal[i] = sigma_ * scales_[i] * NormalQuantile(rng.Uniform());
    AsVector(point) = AsVector(mean_) + AsMatrix(basis_, axes_) * AsVector(normal);
    const auto is_inside = [](double each) { return each >= 0 && each <= 1; };
    if (std::all_of(point.begin(), point.end(), is_inside)) return point;
  }
  for (double& each : point) each = std::clamp(each, 0.0, 1.0);
  return point;
}

std::vector<double> Evolution::Whiten(const Point& point) const {
  const Vector step = (AsVector(point) - AsVector(mean_)) / sigma_;
  std::vector<double> whitened(axes_);
  AsVector(whitened) =
      (AsMatrix(basis_, axes_).transpose() * step).cwiseQuotient(AsVector(scales_));
  return whitened;
}

double Evolution::Reach() const {
  return sigma_ * *std::max_element(scales_.begin(), scales_.end());
}

void Evolution::Update(const std::vector<Point>& ranked) {
  const double usual = std::sqrt(static_cast<double>(axes_)) + kStepExcess;
  std::vector<std::vector<double>> steps;
  std::vector<double> mean_step(axes_, 0);
  for (size_t i = 0; i < weights_.size(); ++i) {
    const double length = Length(Whiten(ranked[i]));
    const double cut = length > usual ? usual / length : 1;
    std::vector<double> step(axes_);
    for (size_t k = 0; k < axes_; ++k) {
      step[k] = cut * (ranked[i][k] - mean_[k]) / sigma_;
      mean_step[k] += weights_[i] * step[k];
    }
    steps.push_back(std::move(step));
  }
  ++generation_;
  AdaptPaths(mean_step);
  AdaptCovariance(steps);
  for (size_t k = 0; k < axes_; ++k)
    mean_[k] = std::clamp(mean_[k] + sigma_ * mean_step[k], 0.0, 1.0);
  const double change = sigma_rate_ / sigma_damping_ * (Length(sigma_path_) / expected_length_ - 1);
  sigma_ *= Exp(std::min(1.0, change));
  Decompose();
}

void Evolution::AdaptPaths(const std::vector<double>& step) {
  const auto basis = AsMatrix(basis_, axes_);
  const Vector along = (basis.transpose() * AsVector(step)).cwiseQuotient(AsVector(scales_));
  const Vector whitened = basis * along;
  AsVector(sigma_path_) = (1 - sigma_rate_) * AsVector(sigma_path_) +
                          std::sqrt(sigma_rate_ * (2 - sigma_rate_) * effective_) * whitened;
  // What is left of the path at the start: (1 - rate)^(2 * generation).
  double left = 1;
  for (size_t i = 0; i < 2 * generation_ && left > 1e-20; ++i) left *= 1 - sigma_rate_;
  const double length = Length(sigma_path_) / std::sqrt(1 - left);
  const double d = static_cast<double>(axes_);
  is_stalled_ = !(length < (1.4 + 2 / (d + 1)) * expected_length_);
  AsVector(path_) *= 1 - path_rate_;
  if (!is_stalled_)
    AsVector(path_) += std::sqrt(path_rate_ * (2 - path_rate_) * effective_) * AsVector(step);
}

void Evolution::AdaptCovariance(const std::vector<std::vector<double>>& steps) {
  auto covariance = AsMatrix(covariance_, axes_);
  const double kept = is_stalled_ ? rank_one_ * path_rate_ * (2 - path_rate_) : 0;
  covariance *= 1 - rank_one_ - rank_mu_ + kept;
  covariance += rank_one_ * AsVector(path_) * AsVector(path_).transpose();
  for (size_t i = 0; i < steps.size(); ++i)
    covariance += (rank_mu_ * weights_[i]) * AsVector(steps[i]) * AsVector(steps[i]).transpose();
}

void Evolution::Decompose() {
  auto covariance = AsMatrix(covariance_, axes_);
  const Matrix symmetric = 0.5 * (covariance + covariance.transpose());
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(symmetric);
  const double largest = solver.eigenvalues().maxCoeff();
  if (solver.info() != Eigen::Success || !(largest > 0) || !std::isfinite(largest)) {
    covariance_ = basis_ = Identity(axes_);  // The shape is lost; the place and the size are not.
    scales_.assign(axes_, 1);
    return;
  }
  covariance = symmetric;
  AsMatrix(basis_, axes_) = solver.eigenvectors();
  AsVector(scales_) = solver.eigenvalues().cwiseMax(kEigenvalueMin * largest).cwiseSqrt();
  sigma_ = std::min(sigma_, kReachMax / std::sqrt(largest));
}

void Evolution::KeepDeviations(const std::vector<double>& least) {
  bool is_changed = false;
  for (size_t k = 0; k < axes_; ++k) {
    double& variance = covariance_[k * axes_ + k];
    const double needed = least[k] / sigma_ * (least[k] / sigma_);
    if (least[k] <= 0 || variance >= needed) continue;
    variance = needed;
    is_changed = true;
  }
  if (is_changed) Decompose();
}

}  // namespace rt
