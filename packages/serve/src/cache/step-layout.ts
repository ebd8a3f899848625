import type { ScheduledChunk } from '../scheduling/sequence.ts';

/** Tokens that attend together: as many of each of some sequences. */
export interface QueryGroup {
  readonly sequences: number;
  /** The number of tokens of each sequence. */
  readonly queries: number;
  /** The number of blocks of each row of `table`. */
  readonly blocks: number;
  /** The blocks of each sequence, in order. Rows of shorter ones end with the spare block, which no query sees there. */
  readonly table: Int32Array<ArrayBuffer>;
  /** For all tokens: their numbers, then their places in their sequences, then their places in the cache. */
  readonly placed: Int32Array<ArrayBuffer>;
}

/** The tokens of a step as one row, in groups. */
export interface StepLayout {
  /** First a chunk of a prompt, if there is one, and then single tokens. */
  readonly groups: readonly QueryGroup[];
  /**
   * The chunks whose next tokens are chosen by the scores of the last tokens of the row, one for each of these tokens. Null
   * for a token whose scores nobody needs.
   */
  readonly scored: readonly (ScheduledChunk | null)[];
}

/** A token of a step. */
interface Place {
  readonly token: number;
  readonly position: number;
  readonly slot: number;
}

/**
 * Puts the chunks of a step, of which at most one has several tokens, into a row. The single tokens are one group. Programs
 * for one of something differ from those for several, so there are never fewer than two sequences with single tokens, and
 * two blocks of a sequence: what is missing is a token of a block that no sequence has, `spareBlock`, and blocks that no
 * query sees. The sizes of groups do not depend on each other, so that a program for any sizes is found soon.
 */
export function layOut(
  chunks: readonly ScheduledChunk[],
  { blockSize, spareBlock }: { readonly blockSize: number; readonly spareBlock: number },
): StepLayout {
  const longer = chunks.filter(({ count }) => count > 1);
  const single = chunks.filter(({ count }) => count === 1);
  const groups = longer.map((chunk) => groupOf(placesOf(chunk), tablesOf([chunk]), spareBlock));
  const scored = longer.map((chunk) => (chunk.isLast ? chunk : null));
  if (single.length > 0) {
    const [places, tables] = [single.flatMap(placesOf), tablesOf(single)];
    scored.push(...single.map((chunk) => (chunk.isLast ? chunk : null)));
    if (single.length === 1) {
      places.push({ token: 0, position: 0, slot: spareBlock * blockSize });
      tables.push([spareBlock]);
      scored.push(null);
    }
    groups.push(groupOf(places, tables, spareBlock));
  }
  return { groups, scored };
}

function placesOf({ sequence, start, count }: ScheduledChunk): Place[] {
  return Array.from({ length: count }, (_, at) => ({
    token: sequence.tokens[start + at] ?? 0,
    position: start + at,
    slot: sequence.table.slotOf(start + at),
  }));
}

function tablesOf(chunks: readonly ScheduledChunk[]): (readonly number[])[] {
  return chunks.map(({ sequence }) => sequence.table.blocks);
}

function groupOf(
  places: readonly Place[],
  tables: readonly (readonly number[])[],
  spareBlock: number,
): QueryGroup {
  const blocks = tables.reduce((most, { length }) => Math.max(most, length), 2);
  const table = new Int32Array(tables.length * blocks).fill(spareBlock);
  for (const [row, own] of tables.entries()) table.set(own, row * blocks);
  const placed = Int32Array.from([
    ...places.map(({ token }) => token),
    ...places.map(({ position }) => position),
    ...places.map(({ slot }) => slot),
  ]);
  return {
    sequences: tables.length,
    queries: places.length / tables.length,
    blocks,
    table,
    placed,
  };
}

/** The sizes of a group of tokens. */
export type GroupSizes = Pick<QueryGroup, 'sequences' | 'queries' | 'blocks'>;

/** A group of these sizes, all of whose tokens lie in the spare block. */
export function spareGroup(
  sizes: GroupSizes,
  { blockSize, spareBlock }: { readonly blockSize: number; readonly spareBlock: number },
): QueryGroup {
  const { sequences, queries, blocks } = sizes;
  const count = sequences * queries;
  const placed = new Int32Array(3 * count).fill(spareBlock * blockSize, 2 * count);
  return { ...sizes, table: new Int32Array(sequences * blocks).fill(spareBlock), placed };
}
