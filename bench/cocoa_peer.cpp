// CoCoA for ridge, lasso and elastic net over MPI, as one writes it by hand in C++:
//
//     minimise  1/2 |A a - b|^2 + lambda (eta/2 |a|^2 + (1 - eta) |a|_1)
//
// Columns are dealt out to ranks so that each has about as many entries. In a round every rank takes H random steps of
// coordinate descent on its own columns, against a copy of the residual; then the changes of the residual are added up by
// MPI_Allreduce. sigma' is the number of ranks, which is always safe.
//
//     mpirun -n K cocoa_peer DATA.bin LAMBDA ETA H ROUNDS TARGET [SEED]
//
// H is told as a share of the columns of a rank. It ends when the objective is at most TARGET, or after ROUNDS; TARGET 0 is
// none. With a SEED the columns of a rank are neighbours and their draws those of `qjam_algos::linear::Draws`, as all programs
// of `bench/paper` have them; every round is told on a line of its own then. DATA.bin has, little end first: rows, columns, entries (int64), where each column starts and the last ends (int64),
// rows of the entries (int32), entries and targets (double).

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <vector>

namespace {

template <class T>
std::vector<T> take(std::ifstream& in, std::size_t count) {
    std::vector<T> all(count);
    in.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(count * sizeof(T)));
    if (!in) {
        std::fprintf(stderr, "the file ends too soon\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return all;
}

struct Columns {
    std::vector<std::int64_t> starts;
    std::vector<std::int32_t> rows;
    std::vector<double> values;

    std::int64_t count() const { return static_cast<std::int64_t>(starts.size()) - 1; }
    std::int64_t length(std::int64_t j) const { return starts[j + 1] - starts[j]; }
};

// The columns of one rank: the longest first, each to whoever has the fewest entries.
Columns share(const Columns& all, int ranks, int rank) {
    std::vector<std::int64_t> order(all.count()), load(ranks, 0);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return all.length(a) > all.length(b); });
    Columns mine;
    mine.starts.push_back(0);
    for (std::int64_t j : order) {
        const auto to = std::min_element(load.begin(), load.end());
        *to += std::max<std::int64_t>(1, all.length(j));
        if (to - load.begin() != rank) continue;
        mine.rows.insert(mine.rows.end(), all.rows.begin() + all.starts[j], all.rows.begin() + all.starts[j + 1]);
        mine.values.insert(mine.values.end(), all.values.begin() + all.starts[j], all.values.begin() + all.starts[j + 1]);
        mine.starts.push_back(static_cast<std::int64_t>(mine.rows.size()));
    }
    return mine;
}

// Neighbouring columns: as many for each rank, and one more for the first ones where that does not come out even.
Columns neighbours(const Columns& all, int ranks, int rank) {
    const std::int64_t each = all.count() / ranks, more = all.count() % ranks;
    const std::int64_t from = rank * each + std::min<std::int64_t>(rank, more), to = from + each + (rank < more);
    Columns mine;
    for (std::int64_t j = from; j <= to; ++j) mine.starts.push_back(all.starts[j] - all.starts[from]);
    mine.rows.assign(all.rows.begin() + all.starts[from], all.rows.begin() + all.starts[to]);
    mine.values.assign(all.values.begin() + all.starts[from], all.values.begin() + all.starts[to]);
    return mine;
}

// SplitMix64: its step and its finalizer.
constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;

std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// The draws of a rank in a round.
struct Draws {
    std::uint64_t key = 0;

    Draws(std::uint64_t seed, std::uint64_t round, std::uint64_t rank) {
        for (std::uint64_t part : {seed, round, rank}) key = mixed((key + golden) ^ part);
    }

    std::int64_t below(std::uint64_t step, std::uint64_t n) const {
        return static_cast<std::int64_t>(((mixed(key + golden * (step + 1)) >> 32) * n) >> 32);
    }
};

double soft(double z, double t) { return z > t ? z - t : z < -t ? z + t : 0.0; }

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int ranks = 1, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 7 && argc != 8) {
        if (rank == 0) std::fprintf(stderr, "usage: cocoa_peer DATA.bin LAMBDA ETA H ROUNDS TARGET [SEED]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const double lambda = std::atof(argv[2]), eta = std::atof(argv[3]), h = std::atof(argv[4]);
    const int most = std::atoi(argv[5]);
    const double target = std::atof(argv[6]);
    const bool told = argc == 8;
    const std::uint64_t seed = told ? std::strtoull(argv[7], nullptr, 10) : 0;

    std::ifstream in(argv[1], std::ios::binary);
    const auto sizes = take<std::int64_t>(in, 3);
    const std::int64_t m = sizes[0];
    Columns mine;
    {
        Columns all;
        all.starts = take<std::int64_t>(in, sizes[1] + 1);
        all.rows = take<std::int32_t>(in, sizes[2]);
        all.values = take<double>(in, sizes[2]);
        mine = told ? neighbours(all, ranks, rank) : share(all, ranks, rank);
    }
    const auto b = take<double>(in, m);

    const std::int64_t n = mine.count();
    std::vector<double> squares(n, 0.0), a(n, 0.0), w(m), r(m), change(m);
    for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t p = mine.starts[j]; p < mine.starts[j + 1]; ++p) squares[j] += mine.values[p] * mine.values[p];
    std::transform(b.begin(), b.end(), w.begin(), [](double x) { return -x; });
    const double sigma = ranks, l1 = lambda * (1.0 - eta), l2 = lambda * eta;
    const auto steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(h * static_cast<double>(n)));
    std::mt19937_64 random(1000003u * static_cast<unsigned>(rank) + 17u);

    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    double working = 0.0, evaluating = 0.0, objective = 0.0;
    int round = 0;
    while (round < most) {
        ++round;
        const Draws draws(seed, static_cast<std::uint64_t>(round - 1), static_cast<std::uint64_t>(rank));
        const double before = MPI_Wtime();
        r = w;
        for (std::int64_t step = 0; step < steps && n > 0; ++step) {
            // Multiplying and shifting draws below n without a division.
            const std::int64_t j = told ? draws.below(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(n))
                                        : static_cast<std::int64_t>((static_cast<unsigned __int128>(random()) * n) >> 64);
            const double q = sigma * squares[j] + l2;
            if (q <= 0.0) continue;
            double along = 0.0;
            for (std::int64_t p = mine.starts[j]; p < mine.starts[j + 1]; ++p) along += mine.values[p] * r[mine.rows[p]];
            const double to = soft((sigma * squares[j] * a[j] - along) / q, l1 / q), by = to - a[j];
            if (by == 0.0) continue;
            a[j] = to;
            for (std::int64_t p = mine.starts[j]; p < mine.starts[j + 1]; ++p) r[mine.rows[p]] += sigma * by * mine.values[p];
        }
        for (std::int64_t i = 0; i < m; ++i) change[i] = (r[i] - w[i]) / sigma;
        const double worked = MPI_Wtime() - before;
        working += worked;
        MPI_Allreduce(MPI_IN_PLACE, change.data(), static_cast<int>(m), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (std::int64_t i = 0; i < m; ++i) w[i] += change[i];
        const double spent = MPI_Wtime() - before;
        if (target > 0.0 || round == most || told) {
            const double then = MPI_Wtime();
            double penalty = 0.0;
            for (double x : a) penalty += 0.5 * l2 * x * x + l1 * std::fabs(x);
            MPI_Allreduce(MPI_IN_PLACE, &penalty, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            objective = 0.5 * std::inner_product(w.begin(), w.end(), w.begin(), 0.0) + penalty;
            if (told) {
                double slowest = 0.0;
                MPI_Reduce(&worked, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
                if (rank == 0) std::printf("round=%d seconds=%.9f worker=%.9f objective=%.17g\n", round, spent, slowest, objective);
            }
            evaluating += MPI_Wtime() - then;
            if (target > 0.0 && objective <= target) break;
        }
    }
    const double total = MPI_Wtime() - begun;
    double slowest = 0.0;
    MPI_Reduce(&working, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("ranks=%d rounds=%d total=%.6fs worker=%.6fs eval=%.6fs overhead=%.6fs objective=%.12e\n", ranks, round,
                    total, slowest, evaluating, total - slowest - evaluating, objective);
    MPI_Finalize();
}
