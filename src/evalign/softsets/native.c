/* The soft confusion matrix of logits and its gradient, each in one pass over the rows: what `_fused.py` does
   with PyTorch. Nothing of the size of the logits is kept in between.

   Everything is scaled so that the dynamic threshold is 1: with e = exp(logit) and e_1 >= e_2 the two largest,
   x = 2 e / (e_1 + e_2). The memberships before normalisation are, with a = 1 - 2.5 T and b = 1 + 2.5 T,

       f(x) = s1 x                       for x <= a,             s1 = T / a
              T + s2 (x - a)             between a and b,        s2 = (1 - 2 T) / (5 T)
              1 - T + s3 (x - b)         for x > b,              s3 = T / (X - b),   X = sum(x)

   plus a constant, the floor, at T = 0.4, where the first piece is empty.

   A tile holds LANES rows side by side, class by class, whatever the strides of the logits are, so that the
   compiler vectorises every loop over lanes. With many classes that are neighbours in memory, a tile holds one row
   instead, LANES classes at a time, and sums over the classes end with a sum over the lanes. */

#ifndef REAL

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define VECTORISED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORISED
#endif

#define INLINE inline __attribute__((always_inline)) /* into each version of the workers */

enum { LANES = 16, MANY = 64, MAX_THREADS = 64 };
enum { DONE, WRONG_TARGET, NO_MEMORY };

/* What is asked for, and the share of one thread; `_native.py` has the same fields. Row r is at
   logits[(r / inner) * stride[0] + (r % inner) * stride[1]], and its next class is stride[2] further. */
typedef struct {
    const void *logits, *labels, *weight, *gradient; /* labels: of one logit per row; weight: 1 if it is NULL */
    const int64_t *targets;
    void *out; /* the matrix, or the gradient of the logits if that of the matrix is given */
    int64_t rows, inner, classes, stride[3], out_stride[3];
    double step[6]; /* T, a, b, s1, s2, floor */
    double total;   /* the weight of all rows */
    int64_t is_double, threads;
    /* Of one thread: */
    double *matrix;
    int64_t start, stop, status;
} Job;

typedef void *(*Worker)(void *);

static inline int64_t find_row(const Job *job, const int64_t *stride, int64_t row) {
    if (row < job->inner) return row * stride[1]; /* without a slow division */
    return row / job->inner * stride[0] + row % job->inner * stride[1];
}

/* Share the rows among threads. Threads live as long as the call, so there is nothing to shut down or to fork. */
static int run(Worker worker, const Job *job, double *matrices) {
    Job jobs[MAX_THREADS];
    pthread_t handles[MAX_THREADS];
    int started[MAX_THREADS], status = DONE;
    for (int64_t t = 0; t < job->threads; t++) {
        jobs[t] = *job;
        jobs[t].start = job->rows * t / job->threads;
        jobs[t].stop = job->rows * (t + 1) / job->threads;
        if (matrices) jobs[t].matrix = matrices + t * job->classes * job->classes;
        started[t] = t > 0 && pthread_create(&handles[t], NULL, worker, &jobs[t]) == 0;
    }
    for (int64_t t = 0; t < job->threads; t++) {
        if (started[t])
            pthread_join(handles[t], NULL);
        else
            worker(&jobs[t]);
        if (jobs[t].status != DONE) status = (int)jobs[t].status;
    }
    return status;
}

/* Which source this is, so that no other version of `_native.py` calls it. */
uint32_t source_checksum(void) { return CHECKSUM; }

#define JOIN(name, type) name##_##type
#define NAMED(name, type) JOIN(name, type)
#define NAME(name) NAMED(name, REAL)

/* exp by 2^n p(r), |r| <= log(2) / 2, with p the Taylor polynomial; SHIFT rounds to an integer. */
#define REAL float
#define INTEGER uint32_t
#define BITS 23
#define BIAS 127
#define SHIFT 12582912.0f
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f
#define SMALLEST -87.0f
#define LARGEST 3.4028234663852886e38f
#define ORDER 7
#include "native.c"

#define REAL double
#define INTEGER uint64_t
#define BITS 52
#define BIAS 1023
#define SHIFT 6755399441055744.0
#define LN2_HIGH 6.93145751953125e-1
#define LN2_LOW 1.42860682030941723212e-6
#define SMALLEST -708.0
#define LARGEST 1.7976931348623157e308
#define ORDER 13
#include "native.c"

/* The gradient of the logits if that of the matrix is given. Otherwise the matrix (d, d) divided by the weight of
   all rows, which is also returned: 0 if there is none, NaN everywhere if a logit is NaN or +inf. */
int confusion(Job *job) {
    const int64_t cells = job->classes * job->classes;
    Worker worker = job->is_double ? process_double : process_float;
    if (job->classes == 2) worker = job->is_double ? process_two_double : process_two_float;
    job->threads = job->threads < 1 ? 1 : job->threads > MAX_THREADS ? MAX_THREADS : job->threads;
    job->status = DONE;
    if (job->gradient) return run(worker, job, NULL);
    double *matrices = calloc((size_t)(job->threads * cells), sizeof(double)), total = 0;
    if (!matrices) return NO_MEMORY;
    const int status = run(worker, job, matrices);
    for (int64_t t = 1; t < job->threads; t++)
        for (int64_t cell = 0; cell < cells; cell++) matrices[cell] += matrices[t * cells + cell];
    for (int64_t cell = 0; cell < cells; cell++) total += matrices[cell];
    for (int64_t cell = 0; cell < cells; cell++) {
        const double share = total == 0 ? 0 : matrices[cell] / total;
        if (job->is_double)
            ((double *)job->out)[cell] = share;
        else
            ((float *)job->out)[cell] = (float)share;
    }
    job->total = total;
    free(matrices);
    return status;
}

#else

/* exp(x) for x <= 0; 0 below the smallest normal number, and for NaN. */
static INLINE REAL NAME(exponential)(REAL x) {
    static const REAL inverse_factorial[] = {
        1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
    };
    union { REAL value; INTEGER bits; } shifted, power;
    REAL kept = x > (REAL)SMALLEST ? x : (REAL)SMALLEST;
    shifted.value = kept * (REAL)1.4426950408889634 + SHIFT;
    REAL n = shifted.value - SHIFT;
    REAL r = (kept - n * LN2_HIGH) - n * LN2_LOW;
    REAL p = inverse_factorial[ORDER];
    for (int i = ORDER - 1; i >= 0; i--) p = p * r + inverse_factorial[i];
    power.bits = (shifted.bits + BIAS) << BITS;
    return x > (REAL)SMALLEST ? p * power.value : 0;
}

/* x is a tile of logits, then of 2 e / (e_1 + e_2); its largest is u, its second x2. Where a
   formula differs for the largest, x > x2 tells it; if there are several, u = x2 = 1 and both formulas agree. */
typedef struct {
    int one_row, used;
    int64_t cells, offset[LANES], out_offset[LANES], target[LANES];
    REAL weight[LANES], u[LANES], x2[LANES], k[LANES], slope[LANES], gain[LANES], norm[LANES];
    REAL *x, *value;
} NAME(Tile);

/* The membership before normalisation of all but the largest, less its value at 0. */
#define MEMBERSHIP(x) (s1 * (x) + bend * ((x) > a ? (x) - a : 0))
#define EACH_LANE _Pragma("omp simd") for (int i = 0; i < LANES; i++)
#define EACH_CELL for (int64_t j = 0; j < tile->cells; j++) EACH_LANE

static INLINE int NAME(open_tile)(NAME(Tile) *tile, const Job *job, int tiles) {
    tile->one_row = job->classes >= MANY && job->stride[2] == 1;
    tile->cells = tile->one_row ? (job->classes + LANES - 1) / LANES : job->classes;
    tile->x = malloc(sizeof(REAL) * tiles * tile->cells * LANES);
    tile->value = tile->x + tile->cells * LANES;
    return tile->x != NULL;
}

/* The weight of a row in the matrix, of which its gradient is a share. */
static INLINE REAL NAME(weigh)(const Job *job, int64_t row) {
    const REAL weight = job->weight ? ((const REAL *)job->weight)[row] : 1;
    return job->gradient ? weight / (REAL)job->total : weight;
}

/* Find the next rows. Lanes that are left over repeat the last row, with weight 0. */
static INLINE int NAME(find_rows)(NAME(Tile) *tile, const Job *job, int64_t row) {
    int64_t outer = row / job->inner, inner = row % job->inner;
    tile->used = tile->one_row ? 1 : job->stop - row < LANES ? (int)(job->stop - row) : LANES;
    for (int i = 0; i < (tile->one_row ? 1 : LANES); i++) {
        tile->offset[i] = outer * job->stride[0] + inner * job->stride[1];
        tile->out_offset[i] = outer * job->out_stride[0] + inner * job->out_stride[1];
        tile->target[i] = job->targets[row];
        tile->weight[i] = i < tile->used ? NAME(weigh)(job, row) : 0;
        if (tile->target[i] < 0 || tile->target[i] >= job->classes) return 0;
        if (i + 1 >= tile->used) continue;
        row++;
        if (++inner == job->inner) outer++, inner = 0;
    }
    if (tile->one_row) EACH_LANE tile->weight[i] = tile->weight[0];
    return 1;
}

static INLINE int NAME(are_neighbours)(const int64_t *offset) {
    int64_t gaps = 0;
    for (int i = 1; i < LANES; i++) gaps |= offset[i] - offset[0] - i;
    return gaps == 0;
}

/* Copy rows into a tile, 16 classes at a time, which stay in the cache; `fill` is for lanes without a class. */
static INLINE void NAME(read_rows)(const NAME(Tile) *tile, const REAL *restrict rows, const int64_t *offset,
                                   int64_t d, int64_t stride, REAL fill, REAL *restrict x) {
    if (tile->one_row) {
        for (int64_t j = 0; j < d; j++) x[j] = rows[offset[0] + j];
        for (int64_t j = d; j < tile->cells * LANES; j++) x[j] = fill;
    } else if (NAME(are_neighbours)(offset)) {
        EACH_CELL x[j * LANES + i] = rows[offset[0] + j * stride + i];
    } else {
        for (int64_t from = 0; from < d; from += 16) {
            const int64_t to = from + 16 < d ? from + 16 : d;
            for (int i = 0; i < LANES; i++)
                for (int64_t j = from; j < to; j++) x[j * LANES + i] = rows[offset[i] + j * stride];
        }
    }
}

static INLINE void NAME(write_rows)(const NAME(Tile) *tile, REAL *restrict rows, const int64_t *offset, int64_t d,
                                    int64_t stride, const REAL *restrict x) {
    if (tile->one_row) {
        for (int64_t j = 0; j < d; j++) rows[offset[0] + j * stride] = x[j];
    } else if (NAME(are_neighbours)(offset)) {
        EACH_CELL rows[offset[0] + j * stride + i] = x[j * LANES + i];
    } else {
        for (int64_t from = 0; from < d; from += 16) {
            const int64_t to = from + 16 < d ? from + 16 : d;
            for (int i = 0; i < tile->used; i++)
                for (int64_t j = from; j < to; j++) rows[offset[i] + j * stride] = x[j * LANES + i];
        }
    }
}

/* The sum over the classes of a row, if its classes are in several lanes. */
static INLINE void NAME(add_lanes)(const NAME(Tile) *tile, REAL *sums) {
    if (!tile->one_row) return;
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    const REAL sum = sums[0];
    EACH_LANE sums[i] = sum;
}

/* The two largest of a row, if its classes are in several lanes. */
static INLINE void NAME(compare_lanes)(const NAME(Tile) *tile, REAL *top, REAL *next) {
    if (!tile->one_row) return;
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) {
            const REAL smaller = top[i] < top[i + half] ? top[i] : top[i + half];
            const REAL larger_next = next[i] > next[i + half] ? next[i] : next[i + half];
            top[i] = top[i] > top[i + half] ? top[i] : top[i + half];
            next[i] = smaller > larger_next ? smaller : larger_next;
        }
    const REAL first = top[0], second = next[0];
    EACH_LANE top[i] = first, next[i] = second;
}

/* From logits to x, and what is needed of the memberships: see the top of `_fused.py`. Returns whether all
   logits are below +inf. */
static INLINE int NAME(measure)(NAME(Tile) *tile, int64_t d, const double *step) {
    const REAL t = step[0], a = step[1], b = step[2], s1 = step[3], s2 = step[4], floor = step[5];
    const REAL bend = s2 - s1;
    REAL *restrict x = tile->x;
    REAL top[LANES], next[LANES], invalid[LANES], u[LANES], x2[LANES], total[LANES], over[LANES], wrong = 0;
    EACH_LANE {
        top[i] = next[i] = (REAL)-INFINITY;
        invalid[i] = total[i] = over[i] = 0;
    }
    EACH_CELL {
        const REAL value = x[j * LANES + i], smaller = value < top[i] ? value : top[i];
        next[i] = smaller > next[i] ? smaller : next[i];
        top[i] = value > top[i] ? value : top[i];
        invalid[i] = value <= LARGEST ? invalid[i] : 1;
    }
    NAME(compare_lanes)(tile, top, next);
    EACH_LANE {
        const REAL ratio = NAME(exponential)(next[i] - top[i]);
        u[i] = 2 / (1 + ratio);
        x2[i] = u[i] * ratio;
        invalid[i] = top[i] >= -LARGEST ? invalid[i] : 1;
    }
    EACH_CELL {
        const REAL value = u[i] * NAME(exponential)(x[j * LANES + i] - top[i]);
        const REAL kept = value < x2[i] ? value : x2[i];
        x[j * LANES + i] = value;
        total[i] += kept;
        over[i] += kept > a ? kept - a : 0;
    }
    NAME(add_lanes)(tile, total);
    NAME(add_lanes)(tile, over);
    EACH_LANE {
        const REAL k = u[i] > b ? u[i] - b : 0;
        const REAL slope = k > 0 ? t / (total[i] - x2[i] + u[i] - b) : 0;
        tile->u[i] = u[i];
        tile->x2[i] = x2[i];
        tile->k[i] = k;
        tile->slope[i] = slope;
        tile->gain[i] = s2 * (u[i] - k - 1) + (REAL)0.5 + k * slope - floor - MEMBERSHIP(x2[i]);
        tile->norm[i] = s1 * total[i] + bend * over[i] + d * floor + tile->gain[i];
    }
    for (int i = 0; i < LANES; i++) wrong += invalid[i];
    return wrong == 0;
}

/* Add the memberships of the rows to their true classes. */
static INLINE void NAME(count)(NAME(Tile) *tile, int64_t d, const double *step, double *restrict matrix) {
    const REAL a = step[1], s1 = step[3], bend = (REAL)step[4] - s1, floor = step[5];
    REAL *restrict x = tile->x;
    REAL scale[LANES], x2[LANES], gain[LANES];
    EACH_LANE {
        scale[i] = tile->weight[i] / tile->norm[i];
        x2[i] = tile->x2[i];
        gain[i] = tile->gain[i] + floor;
    }
    EACH_CELL {
        const REAL value = x[j * LANES + i], kept = value < x2[i] ? value : x2[i];
        x[j * LANES + i] = scale[i] * (MEMBERSHIP(kept) + (value > x2[i] ? gain[i] : floor));
    }
    if (tile->one_row) {
        double *restrict row = matrix + tile->target[0] * d;
        for (int64_t j = 0; j < d; j++) row[j] += x[j];
        return;
    }
    for (int64_t from = 0; from < d; from += 16) {
        const int64_t to = from + 16 < d ? from + 16 : d;
        for (int i = 0; i < tile->used; i++) {
            double *restrict row = matrix + tile->target[i] * d;
            for (int64_t j = from; j < to; j++) row[j] += x[j * LANES + i];
        }
    }
}

/* Turn the gradient of the matrix into that of the logits. The threshold moves with the two largest logits; if
   several are second, or all largest ones are equal, they share it. */
static INLINE void NAME(differentiate)(NAME(Tile) *tile, const Job *job) {
    const int64_t d = job->classes;
    const REAL t = job->step[0], a = job->step[1], s1 = job->step[3], s2 = job->step[4], floor = job->step[5];
    const REAL bend = s2 - s1, *restrict x = tile->x;
    int64_t offset[LANES];
    REAL *restrict value = tile->value;
    REAL x2[LANES], gain[LANES], mean[LANES], of_first[LANES], seconds[LANES], scale[LANES], steep[LANES],
        of_total[LANES], mass[LANES], first_share[LANES], second_share[LANES];
    for (int i = 0; i < (tile->one_row ? 1 : LANES); i++) offset[i] = tile->target[i] * d;
    NAME(read_rows)(tile, job->gradient, offset, d, 1, 0, value);
    EACH_LANE {
        x2[i] = tile->x2[i];
        gain[i] = tile->gain[i] + floor;
        mean[i] = of_first[i] = seconds[i] = mass[i] = 0;
    }
    EACH_CELL {
        const REAL one = x[j * LANES + i], kept = one < x2[i] ? one : x2[i], cost = value[j * LANES + i];
        mean[i] += cost * (MEMBERSHIP(kept) + (one > x2[i] ? gain[i] : floor));
        of_first[i] += one > x2[i] ? cost : 0;
        seconds[i] += one == x2[i] ? 1 : 0;
    }
    NAME(add_lanes)(tile, mean);
    NAME(add_lanes)(tile, of_first);
    NAME(add_lanes)(tile, seconds);
    EACH_LANE {
        const REAL k = tile->k[i], slope = tile->slope[i], u = tile->u[i];
        mean[i] /= tile->norm[i];
        scale[i] = tile->weight[i] / tile->norm[i];
        steep[i] = k > 0 ? slope : s2;
        of_total[i] = -scale[i] * (of_first[i] - mean[i]) * k * slope * slope / t;
        first_share[i] = u * (REAL)0.5;
        second_share[i] = (u > x2[i] ? x2[i] * (REAL)0.5 : 1) / seconds[i];
    }
    EACH_CELL {
        const REAL one = x[j * LANES + i], slope = one > x2[i] ? steep[i] : one > a ? s2 : s1;
        const REAL result = one * (scale[i] * (value[j * LANES + i] - mean[i]) * slope + of_total[i]);
        value[j * LANES + i] = result;
        mass[i] += result;
    }
    NAME(add_lanes)(tile, mass);
    EACH_LANE {
        first_share[i] *= mass[i];
        second_share[i] *= mass[i];
    }
    EACH_CELL {
        const REAL one = x[j * LANES + i];
        value[j * LANES + i] -= one > x2[i] ? first_share[i] : one == x2[i] ? second_share[i] : 0;
    }
}

VECTORISED static void *NAME(process)(void *argument) {
    Job *job = argument;
    const int64_t d = job->classes;
    NAME(Tile) tile;
    if (!NAME(open_tile)(&tile, job, job->gradient ? 2 : 1)) {
        job->status = NO_MEMORY;
        return NULL;
    }
    for (int64_t row = job->start; row < job->stop; row += tile.used) {
        if (!NAME(find_rows)(&tile, job, row)) {
            job->status = WRONG_TARGET;
            break;
        }
        NAME(read_rows)(&tile, job->logits, tile.offset, d, job->stride[2], (REAL)-INFINITY, tile.x);
        const int valid = NAME(measure)(&tile, d, job->step);
        if (job->gradient) {
            NAME(differentiate)(&tile, job);
            NAME(write_rows)(&tile, job->out, tile.out_offset, d, job->out_stride[2], tile.value);
        } else {
            if (!valid) job->matrix[0] = NAN;
            NAME(count)(&tile, d, job->step, job->matrix);
        }
    }
    free(tile.x);
    return NULL;
}

/* The log-odds of class 1 of two: a logit, or the difference of two; NaN if one is NaN or +inf. */
static INLINE REAL NAME(read_odds)(const Job *job, int64_t row) {
    const REAL *logits = (const REAL *)job->logits + find_row(job, job->stride, row);
    if (job->labels) return *logits + 0 * *logits;
    const REAL zero = logits[0], one = logits[job->stride[2]], difference = one - zero;
    if (!(zero <= LARGEST && one <= LARGEST)) return NAN;
    return difference > LARGEST ? LARGEST : difference < -LARGEST ? -LARGEST : difference;
}

/* Two classes: the threshold is 1/2 and the memberships already sum to 1. The label of a row of one logit is 0, 1
   or the probability of class 1. */
VECTORISED static void *NAME(process_two)(void *argument) {
    Job *job = argument;
    const REAL low = (REAL)job->step[1] / 2, width = 1 - 2 * low, floor = job->step[5];
    const REAL flat = 2 * (REAL)job->step[3], steep = 2 * (REAL)job->step[4], *cost = job->gradient;
    const REAL of_zero = cost ? cost[1] - cost[0] : 0, of_one = cost ? cost[3] - cost[2] : 0;
    for (int64_t row = job->start; row < job->stop; row += LANES) {
        const int used = job->stop - row < LANES ? (int)(job->stop - row) : LANES;
        REAL z[LANES], y[LANES], weight[LANES], p[LANES], result[LANES], *out = job->out;
        for (int i = 0; i < LANES; i++) {
            const int64_t kept = row + (i < used ? i : 0);
            z[i] = NAME(read_odds)(job, kept);
            y[i] = job->labels ? ((const REAL *)job->labels)[kept] : (REAL)job->targets[kept];
            weight[i] = i < used ? NAME(weigh)(job, kept) : 0;
            if (job->targets && (job->targets[kept] < 0 || job->targets[kept] > 1)) job->status = WRONG_TARGET;
        }
        EACH_LANE {
            const REAL e = NAME(exponential)(z[i] > 0 ? -z[i] : z[i]), larger = 1 / (1 + e);
            p[i] = z[i] > 0 ? larger : e * larger;
        }
        if (cost) {
            EACH_LANE {
                const REAL slope = p[i] > low && p[i] < low + width ? steep : flat;
                const REAL value = weight[i] * (of_zero + y[i] * (of_one - of_zero));
                result[i] = value * slope * p[i] * (1 - p[i]);
            }
            for (int i = 0; i < used; i++) {
                REAL *place = out + find_row(job, job->out_stride, row + i);
                if (!job->labels) *place = -result[i];
                place[job->out_stride[2]] = result[i];
            }
        } else {
            REAL cells[4] = {0, 0, 0, 0};
            EACH_LANE {
                const REAL over = p[i] - low, middle = over < 0 ? 0 : over < width ? over : width;
                result[i] = floor + flat * p[i] + (steep - flat) * middle + 0 * z[i];
            }
            for (int i = 0; i < LANES; i++) {
                const REAL positive = weight[i] * y[i], negative = weight[i] - positive;
                cells[0] += negative * (1 - result[i]);
                cells[1] += negative * result[i];
                cells[2] += positive * (1 - result[i]);
                cells[3] += positive * result[i];
            }
            for (int cell = 0; cell < 4; cell++) job->matrix[cell] += cells[cell];
        }
    }
    return NULL;
}

#undef MEMBERSHIP
#undef EACH_LANE
#undef EACH_CELL
#undef REAL
#undef INTEGER
#undef BITS
#undef BIAS
#undef SHIFT
#undef LN2_HIGH
#undef LN2_LOW
#undef SMALLEST
#undef LARGEST
#undef ORDER
#endif
