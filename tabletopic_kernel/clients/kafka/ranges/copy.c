// Copies messages of librdkafka's queue into Arrow's buffers, up to where ranges of offsets end. librdkafka's functions
// are pointers, and its public structure is spelled out: nothing is linked. copying.py has the same structures.
#include <stdint.h>
#include <string.h>

typedef struct { // rd_kafka_message_t; an error's payload is its text
  int32_t err;
  void *topic;
  int32_t partition;
  void *payload; size_t len;
  void *key; size_t key_len;
  int64_t offset; void *private;
} message;

// A column of bytes: Arrow's offsets, data and validity.
typedef struct { int32_t *ends; uint8_t *data, *valid; int64_t room, nulls; } bytes;

// first: the offset of its first record, or -1
typedef struct { int64_t partition, next, until, first, ended; } range;

typedef struct {
  intptr_t (*consume)(void *queue, int timeout_ms, message **messages, size_t count);
  int64_t (*timestamp)(const message *, int *kind);
  int (*headers)(const message *, void **headers);
  int (*header)(const void *headers, size_t index, const char **name, const void **value, size_t *size);
  void (*destroy)(message *);
  void *queue;
  message **taken; // from the queue: those before `at` are done, those up to `count` wait
  int64_t at, count, most;
  range *ranges;
  int64_t range_count, open, place; // place: of the range of the last message
  bytes value, key, name, item;     // name and item: of headers
  int32_t *partition, *header_ends;
  int64_t *offset, *time;
  uint8_t *time_valid, *header_valid;
  int64_t rows, most_rows, header_rows, most_headers, with_headers, time_nulls, header_nulls;
  int64_t needs_value, needs_key, needs_name, needs_item, needs_headers; // of the record that found no room
  int64_t error, error_partition;
  char error_text[512];
} reader;

enum { WAITS, FULL, ENDED, FAILED };
static const int64_t LONGEST_MS = INT64_MAX / 1000; // Arrow has microseconds

static void set(uint8_t *bits, int64_t place) { bits[place >> 3] |= (uint8_t)(1 << (place & 7)); }

static void put(bytes *column, int64_t row, const void *data, size_t size) {
  int32_t end = column->ends[row];
  column->ends[row + 1] = end + (data ? (int32_t)size : 0);
  if (data && size) memcpy(column->data + end, data, size);
  if (data) set(column->valid, row);
  else column->nulls++;
}

static int fits(reader *r, const message *m, const void *headers) {
  const char *name;
  const void *value;
  size_t size;
  r->needs_value = m->payload ? (int64_t)m->len : 0;
  r->needs_key = m->key ? (int64_t)m->key_len : 0;
  r->needs_name = r->needs_item = r->needs_headers = 0;
  for (; headers && !r->header(headers, (size_t)r->needs_headers, &name, &value, &size); r->needs_headers++) {
    r->needs_name += (int64_t)strlen(name);
    r->needs_item += value ? (int64_t)size : 0;
  }
  return r->rows < r->most_rows && r->value.ends[r->rows] + r->needs_value <= r->value.room &&
         r->key.ends[r->rows] + r->needs_key <= r->key.room &&
         (!headers || (r->header_rows + r->needs_headers <= r->most_headers &&
                       r->name.ends[r->header_rows] + r->needs_name <= r->name.room &&
                       r->item.ends[r->header_rows] + r->needs_item <= r->item.room));
}

// Whether there was room for the record.
static int copy(reader *r, const message *m) {
  void *headers = NULL;
  const char *name;
  const void *value;
  size_t size;
  int kind;
  int64_t row = r->rows, ms = r->timestamp(m, &kind);
  if (r->with_headers && r->headers(m, &headers)) headers = NULL;
  if (!fits(r, m, headers)) return 0;
  put(&r->value, row, m->payload, m->len);
  put(&r->key, row, m->key, m->key_len);
  r->partition[row] = m->partition;
  r->offset[row] = m->offset;
  int fits_arrow = ms <= LONGEST_MS && ms >= -LONGEST_MS;
  r->time[row] = fits_arrow ? 1000 * ms : 0;
  fits_arrow ? set(r->time_valid, row) : (void)r->time_nulls++;
  if (r->with_headers) {
    for (size_t i = 0; (int64_t)i < r->needs_headers && !r->header(headers, i, &name, &value, &size); i++) {
      put(&r->name, r->header_rows, name, strlen(name));
      put(&r->item, r->header_rows++, value, size);
    }
    r->needs_headers ? set(r->header_valid, row) : (void)r->header_nulls++;
    r->header_ends[row + 1] = (int32_t)r->header_rows;
  }
  r->rows++;
  return 1;
}

static range *range_of(reader *r, int32_t partition) {
  for (int64_t tried = 0; tried < r->range_count; tried++, r->place = (r->place + 1) % r->range_count)
    if (r->ranges[r->place].partition == partition) return &r->ranges[r->place];
  return NULL;
}

static int fail(reader *r, const message *m) {
  size_t most = sizeof r->error_text - 1, size = !m->payload ? 0 : m->len < most ? m->len : most;
  if (size) memcpy(r->error_text, m->payload, size);
  r->error_text[size] = 0;
  r->error = m->err;
  r->error_partition = m->partition;
  return FAILED;
}

// Copies until a range has ended (ENDED), the next record finds no room (FULL), an error came that is no end of a
// partition (FAILED), or nothing came in time (WAITS). An end at `until` or above ends a range, as a record does.
int take(reader *r, int timeout_ms, int end_of_partition) {
  for (;;) {
    while (r->at < r->count) {
      message *m = r->taken[r->at];
      range *its = range_of(r, m->partition);
      int64_t was = its ? its->ended : 0;
      int outcome = WAITS;
      if (m->err && m->err != end_of_partition) {
        outcome = fail(r, m);
      } else if (its && !was && m->offset >= its->until) {
        its->ended = 1;
      } else if (its && !was && !m->err && m->offset >= its->next) {
        if (!copy(r, m)) return FULL; // and stays
        if (its->first < 0) its->first = m->offset;
        its->next = m->offset + 1;
        its->ended = its->next >= its->until;
      }
      r->destroy(m);
      r->at++;
      if (its && its->ended > was) {
        r->open--;
        outcome = ENDED;
      }
      if (outcome != WAITS) return outcome;
    }
    r->at = 0;
    r->count = r->consume(r->queue, timeout_ms, r->taken, 1); // a call with a time waits for all that it may take
    if (r->count <= 0) return r->count = 0, WAITS;
    intptr_t more = r->consume(r->queue, 0, r->taken + 1, (size_t)r->most - 1);
    r->count += more > 0 ? more : 0;
  }
}
