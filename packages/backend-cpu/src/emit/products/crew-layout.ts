/**
 * The byte offsets of the words that the threads of a crew share. Each has a line of memory of its own.
 *
 * - next: the number of parts, times 2^16, plus the number of the next one.
 * - done: how many parts are done.
 * - parts: the number of parts.
 * - frames: the address of the addresses of the frames of all parts.
 * - helpers: how many threads of the pool wait for parts.
 */
export const crewFields = {
  next: 0,
  done: 64,
  parts: 128,
  frames: 192,
  helpers: 256,
} as const;

export type CrewField = keyof typeof crewFields;

export const CREW_BYTES = 320;

/** The bits of `next` that have the number of the next part. */
export const crewBits = 16;
