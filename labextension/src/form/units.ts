/** Numbers as people write them into the form, in the units that the server parses. */

const DURATIONS: readonly (readonly [string, number])[] = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000]
];
const SIZES: readonly (readonly [string, number])[] = [
  ['GB', 1024 ** 3],
  ['MB', 1024 ** 2],
  ['KB', 1024]
];

/** 5000 becomes "5s": the largest unit of which it is a whole number. */
export function millisecondsText(value: number): string {
  return inUnits(value, DURATIONS) ?? `${value}ms`;
}

/** 134217728 becomes "128MB"; powers of 1024, as on the server. */
export function bytesText(value: number): string {
  return inUnits(value, SIZES) ?? `${value}B`;
}

/** Milliseconds since 1970 as a time in UTC. */
export function momentText(value: number): string {
  return new Date(value).toISOString();
}

function inUnits(value: number, units: readonly (readonly [string, number])[]): string | null {
  const unit = units.find(([, size]) => value >= size && value % size === 0);
  return unit === undefined ? null : `${value / unit[1]}${unit[0]}`;
}
