import type { Chunk } from '../scheduling/sequence.ts';

/** Queries that attend together: as many of each of some sequences. */
export interface QueryGroup {
  /** The place of the first token of the group among those of the step. */
  readonly first: number;
  readonly sequences: number;
  readonly queries: number;
  /** The number of blocks of each row of `table`. */
  readonly blocks: number;
  /** The blocks of each sequence, in order. Rows of shorter ones end with block 0, which no query sees there. */
  readonly table: Int32Array;
  /** For each query, the place of its token in its sequence. */
  readonly positions: Int32Array;
}

/** The tokens of a step as one row, and where their keys and values lie. */
export interface StepLayout {
  readonly tokens: Int32Array;
  /** The place of each token in its sequence. */
  readonly positions: Int32Array;
  /** The place of each token in the cache. */
  readonly slots: Int32Array;
  /** All tokens, in consecutive groups. */
  readonly groups: readonly QueryGroup[];
  /** The tokens whose scores are needed: the last one of each chunk that ends its sequence. */
  readonly scored: Int32Array;
  /** The chunks that `scored` belongs to, in its order. */
  readonly scoredChunks: readonly Chunk[];
}

/**
 * Puts the chunks of a step into a row. Single tokens of any number of sequences are one group, so that a step has at
 * most one group more than it has longer chunks.
 */
export function layOut(chunks: readonly Chunk[]): StepLayout {
  const single = chunks.filter(({ count }) => count === 1);
  const longer = chunks.filter(({ count }) => count > 1);
  const ordered = [...longer, ...single];
  const places = ordered.flatMap((chunk) =>
    Array.from({ length: chunk.count }, (_, at) => ({ chunk, position: chunk.start + at })),
  );
  let first = 0;
  const group = (members: readonly Chunk[]): QueryGroup => {
    const made = groupOf(first, members);
    first += made.sequences * made.queries;
    return made;
  };
  const groups = longer.map((chunk) => group([chunk]));
  if (single.length > 0) groups.push(group(single));
  const scored = places.flatMap(({ chunk: { isLast, sequence }, position }, place) =>
    isLast && position === sequence.tokens.length - 1 ? [place] : [],
  );
  return {
    tokens: Int32Array.from(places, ({ chunk, position }) => chunk.sequence.tokens[position] ?? 0),
    positions: Int32Array.from(places, ({ position }) => position),
    slots: Int32Array.from(places, ({ chunk, position }) => chunk.sequence.table.slotOf(position)),
    groups,
    scored: Int32Array.from(scored),
    scoredChunks: ordered.filter(({ isLast }) => isLast),
  };
}

function groupOf(first: number, chunks: readonly Chunk[]): QueryGroup {
  const blocks = chunks.reduce(
    (most, { sequence }) => Math.max(most, sequence.table.blocks.length),
    0,
  );
  const table = new Int32Array(chunks.length * blocks);
  for (const [row, { sequence }] of chunks.entries()) {
    table.set(sequence.table.blocks, row * blocks);
  }
  const [{ count: queries } = { count: 0 }] = chunks;
  const positions = chunks.flatMap(({ start, count }) =>
    Array.from({ length: count }, (_, at) => start + at),
  );
  return {
    first,
    sequences: chunks.length,
    queries,
    blocks,
    table,
    positions: Int32Array.from(positions),
  };
}
