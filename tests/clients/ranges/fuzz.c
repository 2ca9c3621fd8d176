// Random messages through take(), with buffers of exactly the room that it knows of: for AddressSanitizer. Each record's
// content follows from its place, and is compared with what the buffers have.
#include "copy.c"
#include <stdio.h>
#include <stdlib.h>

#define PARTITIONS 3
#define EOF_CODE (-191)
#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)
static unsigned long long state;
static unsigned rnd(unsigned below) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(state >> 33) % below;
}
static unsigned long long mixed(int64_t partition, int64_t offset, unsigned salt) {
  unsigned long long x = ((unsigned long long)offset * PARTITIONS + (unsigned long long)partition) * 16 + salt;
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 29);
}
static int64_t size_of(int64_t p, int64_t o, unsigned salt) { // -1: null
  unsigned long long x = mixed(p, o, salt);
  return x % 4 == 0 ? -1 : x % 4 == 1 ? 0 : (int64_t)(x / 4 % (x % 41 == 0 ? 5000 : 60));
}
static unsigned headers_of(int64_t p, int64_t o) { return mixed(p, o, 3) % 3 ? 0 : (unsigned)(mixed(p, o, 4) % 5); }
static void *filled(int64_t size, int64_t p, int64_t o, unsigned salt) {
  if (size < 0) return NULL;
  char *data = malloc((size_t)size); // a read beyond it is an error
  for (int64_t i = 0; i < size; i++) data[i] = (char)(mixed(p, o, salt) + (unsigned long long)i);
  return data ? data : malloc(1);
}

static int64_t at[PARTITIONS], stop[PARTITIONS], until[PARTITIONS], made, gone, wanted;
static intptr_t consume(void *queue, int timeout_ms, message **messages, size_t count) {
  (void)queue;
  size_t n = 0, most = rnd(timeout_ms ? 2 : (unsigned)count + 1);
  for (; n < most && n < count; n++) {
    message *m = calloc(1, sizeof *m);
    int p = (int)rnd(PARTITIONS);
    m->partition = p;
    m->offset = at[p];
    if (rnd(50) == 0) {
      m->err = 7;
      m->payload = filled(m->len = rnd(700), p, 0, 0);
    } else if (at[p] >= stop[p]) {
      m->err = EOF_CODE;
      m->payload = filled(m->len = 20, p, 0, 0);
    } else {
      int64_t value = size_of(p, at[p], 0), key = size_of(p, at[p], 1);
      m->payload = filled(value, p, at[p], 0);
      m->key = filled(key, p, at[p], 1);
      m->len = value < 0 ? 0 : (size_t)value;
      m->key_len = key < 0 ? 0 : (size_t)key;
      wanted += at[p] < until[p];
      at[p] += 1 + (rnd(5) == 0 ? rnd(4) : 0);
    }
    messages[n] = m;
    made++;
  }
  return (intptr_t)n;
}
static int64_t timestamp(const message *m, int *kind) {
  *kind = 1;
  return mixed(m->partition, m->offset, 2) % 5 ? m->offset : INT64_MIN + m->offset;
}
static int headers(const message *m, void **out) {
  *out = (void *)m;
  return headers_of(m->partition, m->offset) ? 0 : -1;
}
static int header(const void *of, size_t i, const char **name, const void **value, size_t *size) {
  const message *m = of;
  if (i >= headers_of(m->partition, m->offset)) return -1;
  *name = i % 2 ? "name" : "";
  *value = i % 3 ? m : NULL;
  *size = i % 3 ? i : 0;
  return 0;
}
static void destroy(message *m) {
  free(m->payload);
  free(m->key);
  free(m);
  gone++;
}

static void give(bytes *b, int64_t slots, int64_t room) {
  *b = (bytes){calloc((size_t)slots + 1, 4), malloc((size_t)room), calloc((size_t)slots / 8 + 1, 1), room, 0};
}
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static void clear(reader *r) {
  bytes *all[] = {&r->value, &r->key, &r->name, &r->item};
  for (int i = 0; i < 4; i++) free(all[i]->ends), free(all[i]->data), free(all[i]->valid);
  free(r->partition), free(r->offset), free(r->time), free(r->time_valid), free(r->header_ends), free(r->header_valid);
}
static void renew(reader *r) {
  clear(r);
  int64_t rows = 1 + rnd(40), entries = most(1 + rnd(30), r->needs_headers);
  give(&r->value, rows, most(1 + rnd(900), r->needs_value));
  give(&r->key, rows, most(1 + rnd(900), r->needs_key));
  give(&r->name, entries, most(1 + rnd(90), r->needs_name));
  give(&r->item, entries, most(1 + rnd(90), r->needs_item));
  r->partition = malloc((size_t)rows * 4), r->offset = malloc((size_t)rows * 8), r->time = malloc((size_t)rows * 8);
  r->time_valid = calloc((size_t)rows / 8 + 1, 1), r->header_valid = calloc((size_t)rows / 8 + 1, 1);
  r->header_ends = calloc((size_t)rows + 1, 4);
  r->rows = r->header_rows = r->time_nulls = r->header_nulls = 0;
  r->most_rows = rows, r->most_headers = entries;
}
static int has(const uint8_t *bits, int64_t i) { return bits[i >> 3] >> (i & 7) & 1; }
static void compare(const bytes *b, int64_t row, int64_t p, int64_t o, unsigned salt) {
  int64_t size = size_of(p, o, salt), length = b->ends[row + 1] - b->ends[row];
  CHECK(has(b->valid, row) == (size >= 0) && length == (size < 0 ? 0 : size));
  for (int64_t i = 0; i < length; i++) CHECK(b->data[b->ends[row] + i] == (uint8_t)(mixed(p, o, salt) + (unsigned long long)i));
}
static void check(const reader *r, int64_t *last, int64_t *count) {
  for (int64_t row = 0; row < r->rows; row++) {
    int64_t p = r->partition[row], o = r->offset[row];
    CHECK(o > last[p] && o < r->ranges[p].until);
    last[p] = o;
    compare(&r->value, row, p, o, 0);
    compare(&r->key, row, p, o, 1);
    CHECK(has(r->time_valid, row) == (mixed(p, o, 2) % 5 != 0));
    if (r->with_headers) {
      CHECK(r->header_ends[row + 1] - r->header_ends[row] == (int32_t)headers_of(p, o));
      CHECK(has(r->header_valid, row) == (headers_of(p, o) > 0));
    }
  }
  *count += r->rows;
}

int main(int argc, char **argv) {
  for (unsigned long long seed = strtoull(argv[argc - 2], NULL, 10), rounds = strtoull(argv[argc - 1], NULL, 10); rounds--;) {
    state = ++seed;
    message *taken[17];
    range ranges[PARTITIONS];
    int64_t last[PARTITIONS], count = 0, failures = 0;
    for (int p = 0; p < PARTITIONS; p++) {
      at[p] = rnd(100), last[p] = at[p] - 1, stop[p] = at[p] + 1 + rnd(300);
      until[p] = at[p] + 1 + rnd((unsigned)(stop[p] - at[p]));
      ranges[p] = (range){p, at[p], until[p], -1, 0};
    }
    reader r = {consume, timestamp, headers, header, destroy, NULL, taken, 0, 0, 2 + rnd(15), ranges, PARTITIONS, PARTITIONS};
    r.with_headers = rnd(2);
    renew(&r);
    while (r.open) {
      int outcome = take(&r, 1, EOF_CODE);
      failures += outcome == FAILED && r.error == 7 && strlen(r.error_text) < sizeof r.error_text;
      if (outcome == FULL) check(&r, last, &count), renew(&r);
    }
    check(&r, last, &count);
    for (int p = 0; p < PARTITIONS; p++) CHECK(ranges[p].ended && ranges[p].first <= last[p]);
    for (; r.at < r.count; r.at++) destroy(taken[r.at]);
    CHECK(made == gone && count == wanted);
    wanted = 0;
    clear(&r);
  }
  puts("equal");
  return 0;
}
