/* The loops that numpy is slow at: counts of bit patterns, casts between element types, sums of fp32.

   Plain C99 that knows nothing of Python, so that one library serves every version. Callers see to lengths and types
   before they call (compiled.py); nothing here reads or writes outside of what it is given. Elements may lie at any
   address: they are moved by memcpy, which compilers turn into plain loads and stores. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

typedef unsigned char byte;

enum {
  INTERFACE = 4, /* VERSION in compiled.py; both are raised when a function changes */
  PIECE = 4096,  /* elements whose tally fits small counters, and that stay in the first cache of a core */
  LANES = 16,    /* sums that are kept side by side: a power of two, enough for compilers to make vectors of them */
  FEW = 64,      /* numbers whose bins are estimated together: where one is in doubt, all of them are looked at */
  LEAVES = 4,    /* tables of counts */
  MOST_BINS = 1024 /* that these tables have room for */
};

static const double ROUNDED = 3e-7; /* five times the rounding of fp32, as a part of what is rounded */

static const uint32_t MAGNITUDE = 0x7FFFFFFF; /* of fp32: all but the sign */
static const uint32_t INFINITE = 0x7F800000;
static const uint32_t SMALLEST_NORMAL = 0x00800000;
static const uint64_t EVERYWHERE = 0x0001000100010001; /* times a pattern: four of it side by side */

static inline uint16_t load16(const byte *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline uint32_t load32(const byte *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline uint64_t load64(const byte *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline void store16(byte *at, uint16_t value) { memcpy(at, &value, sizeof value); }

static inline void store32(byte *at, uint32_t value) { memcpy(at, &value, sizeof value); }

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

PUBLIC int32_t ckpt_interface(void) { return INTERFACE; }

/* ------------------------------------------------------------------------------------------------------- counts */

/* Four at a time by one load. A run of one pattern would wait for its own count each time: it is added at once. */
PUBLIC void ckpt_count16(const byte *patterns, size_t number, int64_t *counts) {
  size_t i = 0;
  for (; i + 4 <= number; i += 4) {
    uint64_t four = load64(patterns + 2 * i);
    uint64_t first = four & 0xFFFF;
    if (four == first * EVERYWHERE) {
      counts[first] += 4;
      continue;
    }
    counts[first]++;
    counts[four >> 16 & 0xFFFF]++;
    counts[four >> 32 & 0xFFFF]++;
    counts[four >> 48]++;
  }
  for (; i < number; i++) counts[load16(patterns + 2 * i)]++;
}

/* Of every other pattern, the first of them at `patterns`: what fp32 has in the halves of its numbers. */
PUBLIC void ckpt_count16_apart(const byte *patterns, size_t number, int64_t *counts) {
  size_t i;
  for (i = 0; i < number; i++) counts[load16(patterns + 4 * i)]++;
}

/* Two tables, as neighbours are often the same where there are only 256 patterns. */
PUBLIC void ckpt_count8(const byte *patterns, size_t number, int64_t *counts) {
  int64_t odd[256] = {0};
  size_t i = 0;
  for (; i + 8 <= number; i += 8) {
    uint64_t eight = load64(patterns + i);
    counts[eight & 0xFF]++;
    odd[eight >> 8 & 0xFF]++;
    counts[eight >> 16 & 0xFF]++;
    odd[eight >> 24 & 0xFF]++;
    counts[eight >> 32 & 0xFF]++;
    odd[eight >> 40 & 0xFF]++;
    counts[eight >> 48 & 0xFF]++;
    odd[eight >> 56]++;
  }
  for (; i < number; i++) counts[patterns[i]]++;
  for (i = 0; i < 256; i++) counts[i] += odd[i];
}

/* The bin of one finite number: an estimate, put right by its borders where it is off by one. */
static inline size_t bin_of(float value, const double *edges, size_t bins, double scale) {
  double at = (value - edges[0]) * scale, last = (double)(bins - 1);
  size_t bin = (size_t)(at < 0 ? 0 : at > last ? last : at);
  bin -= bin > 0 && value < edges[bin];
  bin += bin < bins - 1 && value >= edges[bin + 1];
  return bin;
}

/* The bins of a few numbers as estimated in fp32, four at a time; returns 0 where one lies so near a border, or outside,
   that its own may be another. What is not finite gets the number behind the last bin. */
static int guess_bins(const byte *values, float first, float end, float scale, float near, int32_t *found) {
  const int32_t beyond = (int32_t)end;
  const float far = 1 - near;
  int32_t doubt = 0;
  size_t i;
  for (i = 0; i < FEW; i++) {
    uint32_t bits = load32(values + 4 * i);
    int32_t odd = (bits & MAGNITUDE) >= INFINITE, bin;
    float value, at, part;
    bits = odd ? 0 : bits;
    memcpy(&value, &bits, sizeof value);
    at = (value - first) * scale;
    at = at > -1 ? at : -1;
    at = at < end ? at : end;
    bin = (int32_t)at;
    part = at - (float)bin;
    doubt |= (odd ^ 1) & ((part < near) | (part > far));
    found[i] = odd ? beyond : bin;
  }
  return !doubt;
}

/* Of fp32 by bin, what is not finite left out. What lies outside goes to the first or the last. `edges` has one number
   more than there are bins. Neighbours are often alike: they are counted in tables of their own, or each would wait for
   the one before. */
PUBLIC void ckpt_bins32(const byte *values, size_t number, const double *edges, size_t bins, double scale,
                        int64_t *counts) {
  int64_t apart[LEAVES][MOST_BINS + 1] = {{0}};
  int32_t found[FEW];
  const double reach = (edges[0] < 0 ? -edges[0] : edges[0]) + (edges[bins] < 0 ? -edges[bins] : edges[bins]);
  const double near = (reach * scale + (double)bins) * ROUNDED; /* of a bin: what rounding makes of it, at most */
  const int fast = bins <= MOST_BINS && near < 0.1 && scale > 1e-30 && scale < 1e30;
  const float start = (float)edges[0], end = (float)bins;
  size_t i, leaf;
  while (number) {
    size_t size = smaller(number, FEW);
    if (fast && size == FEW && guess_bins(values, start, end, (float)scale, (float)near, found)) {
      for (i = 0; i < FEW; i += LEAVES)
        for (leaf = 0; leaf < LEAVES; leaf++) apart[leaf][found[i + leaf]]++;
    } else {
      for (i = 0; i < size; i++) {
        uint32_t bits = load32(values + 4 * i);
        float value;
        memcpy(&value, &bits, sizeof value);
        if ((bits & MAGNITUDE) < INFINITE) counts[bin_of(value, edges, bins, scale)]++;
      }
    }
    number -= size, values += 4 * size;
  }
  for (i = 0; fast && i < bins; i++)
    for (leaf = 0; leaf < LEAVES; leaf++) counts[i] += apart[leaf][i];
}

/* -------------------------------------------------------------------------------------------------------- casts */

/* How many patterns are, without their sign, at least `least` and below `least + span`. */
static int64_t within(const byte *patterns, size_t number, uint16_t least, uint16_t span) {
  uint16_t found = 0;
  size_t i;
  for (i = 0; i < number; i++) {
    uint16_t above = (uint16_t)((load16(patterns + 2 * i) & 0x7FFF) - least);
    found = (uint16_t)(found + (above < span));
  }
  return found;
}

/* Each pattern's entry in a table of 65,536; returns how many patterns are within a range without their sign. `out`
   may be `patterns`. */
PUBLIC int64_t ckpt_look_up16(const byte *patterns, size_t number, const uint16_t *table, byte *out, uint16_t least,
                              uint16_t span) {
  int64_t found = 0;
  while (number) {
    size_t size = smaller(number, PIECE), i = 0;
    if (span) found += within(patterns, size, least, span);
    for (; i + 4 <= size; i += 4) {
      uint64_t four = load64(patterns + 2 * i);
      uint64_t result = (uint64_t)table[four & 0xFFFF] | (uint64_t)table[four >> 16 & 0xFFFF] << 16 |
                        (uint64_t)table[four >> 32 & 0xFFFF] << 32 | (uint64_t)table[four >> 48] << 48;
      memcpy(out + 2 * i, &result, sizeof result);
    }
    for (; i < size; i++) store16(out + 2 * i, table[load16(patterns + 2 * i)]);
    number -= size, patterns += 2 * size, out += 2 * size;
  }
  return found;
}

/* The same with entries of 32 bits; `out` is apart from `patterns`. */
PUBLIC int64_t ckpt_look_up32(const byte *patterns, size_t number, const uint32_t *table, byte *out, uint16_t least,
                              uint16_t span) {
  int64_t found = 0;
  while (number) {
    size_t size = smaller(number, PIECE), i;
    if (span) found += within(patterns, size, least, span);
    for (i = 0; i < size; i++) store32(out + 4 * i, table[load16(patterns + 2 * i)]);
    number -= size, patterns += 2 * size, out += 4 * size;
  }
  return found;
}

/* fp32 to bf16, ties to even; NaN stays NaN, made quiet. Returns how many finite values become infinite. */
PUBLIC int64_t ckpt_fp32_bf16(const byte *values, size_t number, byte *out) {
  int64_t overflow = 0;
  while (number) {
    size_t size = smaller(number, PIECE), i;
    uint32_t found = 0;
    for (i = 0; i < size; i++) {
      uint32_t bits = load32(values + 4 * i), magnitude = bits & MAGNITUDE;
      uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
      rounded = magnitude > INFINITE ? bits >> 16 | 0x40 : rounded;
      found += (magnitude >= 0x7F7F8000) & (magnitude < INFINITE);
      store16(out + 2 * i, (uint16_t)rounded);
    }
    overflow += found;
    number -= size, values += 4 * size, out += 2 * size;
  }
  return overflow;
}

/* fp32 to fp16, ties to even; NaN stays NaN, made quiet. Returns how many finite values become infinite.

   Normal results: the exponent's bias changes from 127 to 15, and 13 bits are rounded off. Subnormal ones: added to
   0.5, a value has its last bit at 2^-24, which is that of fp16's subnormals; the sum rounds, its lower bits are the
   result. From 65,520 on, results are infinite. */
PUBLIC int64_t ckpt_fp32_fp16(const byte *values, size_t number, byte *out) {
  int64_t overflow = 0;
  while (number) {
    size_t size = smaller(number, PIECE), i;
    uint32_t found = 0;
    for (i = 0; i < size; i++) {
      uint32_t bits = load32(values + 4 * i), magnitude = bits & MAGNITUDE, small, result;
      float sum;
      memcpy(&sum, &magnitude, sizeof sum);
      sum += 0.5f;
      memcpy(&small, &sum, sizeof small);
      result = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
      result = magnitude < 0x38800000 ? small - 0x3F000000 : result;
      result = magnitude >= 0x477FF000 ? 0x7C00 : result;
      result = magnitude > INFINITE ? 0x7E00 | (magnitude >> 13 & 0x3FF) : result;
      found += (magnitude >= 0x477FF000) & (magnitude < INFINITE);
      store16(out + 2 * i, (uint16_t)(result | (bits >> 16 & 0x8000)));
    }
    overflow += found;
    number -= size, values += 4 * size, out += 2 * size;
  }
  return overflow;
}

/* --------------------------------------------------------------------------------------------------------- sums */

typedef struct {
  double mean, deviation, squares; /* deviation: the sum of the squares of what lies between an element and the mean */
  double low, high;
  int64_t zeros, negative_zeros, subnormals;
} Sums;

static double added(double *lanes) {
  size_t width, lane;
  for (width = LANES / 2; width; width /= 2)
    for (lane = 0; lane < width; lane++) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

/* What of a piece is plain to add; returns whether all of it is finite. */
static int sum_piece(const byte *values, size_t size, Sums *out, double *total) {
  double sum[LANES] = {0}, squares[LANES] = {0};
  float low[LANES], high[LANES], first;
  uint32_t zeros = 0, negative = 0, small = 0, bad = 0;
  size_t i, lane;
  memcpy(&first, values, sizeof first);
  for (lane = 0; lane < LANES; lane++) low[lane] = high[lane] = first;
  for (i = 0; i < size; i++) {
    uint32_t bits = load32(values + 4 * i), magnitude = bits & MAGNITUDE;
    bad |= magnitude >= INFINITE;
    zeros += magnitude == 0;
    negative += bits == ~MAGNITUDE;
    small += magnitude < SMALLEST_NORMAL;
  }
  if (bad) return 0;
  for (i = 0; i + LANES <= size; i += LANES)
    for (lane = 0; lane < LANES; lane++) {
      float value;
      memcpy(&value, values + 4 * (i + lane), sizeof value);
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
      sum[lane] += value;
      squares[lane] += (double)value * value;
    }
  for (lane = 0; i < size; i++, lane++) {
    float value;
    memcpy(&value, values + 4 * i, sizeof value);
    low[lane] = value < low[lane] ? value : low[lane];
    high[lane] = value > high[lane] ? value : high[lane];
    sum[lane] += value;
    squares[lane] += (double)value * value;
  }
  for (lane = 0; lane < LANES; lane++) {
    out->low = low[lane] < out->low ? low[lane] : out->low;
    out->high = high[lane] > out->high ? high[lane] : out->high;
  }
  out->zeros += zeros, out->negative_zeros += negative, out->subnormals += small - zeros;
  out->squares += added(squares);
  *total = added(sum);
  return 1;
}

/* The squares of what lies between the elements of a piece and their mean. */
static double deviation_of(const byte *values, size_t size, double mean) {
  double sum[LANES] = {0};
  size_t i, lane;
  for (i = 0; i + LANES <= size; i += LANES)
    for (lane = 0; lane < LANES; lane++) {
      float value;
      memcpy(&value, values + 4 * (i + lane), sizeof value);
      sum[lane] += (value - mean) * (value - mean);
    }
  for (lane = 0; i < size; i++, lane++) {
    float value;
    memcpy(&value, values + 4 * i, sizeof value);
    sum[lane] += (value - mean) * (value - mean);
  }
  return added(sum);
}

/* The sums of fp32, in fp64; deviations of pieces are merged after Chan, Golub and LeVeque (1979). Returns 0, and
   nothing of use, where an element is not finite. */
PUBLIC int32_t ckpt_sums32(const byte *values, size_t number, Sums *out) {
  double done = 0;
  float first = 0;
  if (number) memcpy(&first, values, sizeof first);
  memset(out, 0, sizeof *out);
  out->low = out->high = first;
  while (number) {
    size_t size = smaller(number, PIECE);
    double total, mean, between, all = done + (double)size;
    if (!sum_piece(values, size, out, &total)) return 0;
    mean = total / (double)size;
    between = mean - out->mean;
    out->deviation += deviation_of(values, size, mean) + between * between * (done * ((double)size / all));
    out->mean += between * ((double)size / all);
    done = all;
    number -= size, values += 4 * size;
  }
  return 1;
}

/* ------------------------------------------------------------------------------------------------------ columns */

/* Of each column of a matrix of fp32: the sum and the largest magnitude of its finite elements (-1 if it has none),
   and how many are not finite. */
PUBLIC void ckpt_columns32(const byte *values, size_t rows, size_t columns, double *restrict sums,
                           float *restrict largest, int32_t *restrict bad) {
  size_t row, i;
  for (i = 0; i < columns; i++) sums[i] = 0, largest[i] = -1, bad[i] = 0;
  for (row = 0; row < rows; row++, values += 4 * columns)
    for (i = 0; i < columns; i++) {
      uint32_t bits = load32(values + 4 * i), magnitude = bits & MAGNITUDE, known = magnitude < INFINITE;
      float value, size;
      bits = known ? bits : 0;
      memcpy(&value, &bits, sizeof value);
      memcpy(&size, &magnitude, sizeof size);
      size = known ? size : -1;
      sums[i] += value;
      largest[i] = size > largest[i] ? size : largest[i];
      bad[i] += !known;
    }
}
