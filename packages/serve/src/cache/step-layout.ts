import type { ScheduledChunk, Sequence } from '../scheduling/sequence.ts';

/** Tokens of a sequence that follow each other, which a step computes. */
export interface TokenRun {
  readonly sequence: Sequence;
  /** The place of the first token in the sequence. */
  readonly start: number;
  readonly tokens: readonly number[];
  /**
   * Whether they attend together, as a chunk of a prompt does, of which only the last token has scores. The tokens of
   * other runs are computed as single ones, each with scores. At most one run of a step is a chunk.
   */
  readonly isChunk: boolean;
}

/** Tokens that attend together: as many of each of some sequences. */
export interface QueryGroup {
  readonly sequences: number;
  /** The number of tokens of each sequence. */
  readonly queries: number;
  /** The number of blocks of each row of `table`. */
  readonly blocks: number;
  /** The blocks of each sequence, in order. Rows of shorter ones end with the spare block, which no query sees there. */
  readonly table: Int32Array<ArrayBuffer>;
  /**
   * For all tokens: their numbers, then their places in their sequences, then their places in the cache, then the numbers of
   * their adapters.
   */
  readonly placed: Int32Array<ArrayBuffer>;
}

/** The tokens of a step as one row, in groups. */
export interface StepLayout {
  /** First a chunk of a prompt, if there is one, and then single tokens. */
  readonly groups: readonly QueryGroup[];
  /** The runs of the last tokens of the row, which have scores: one for each of these tokens. Null for a token of no run. */
  readonly scored: readonly (TokenRun | null)[];
}

/**
 * The number of blocks in a row of a table is a multiple of this. A program is linked anew for each number, which would
 * otherwise change whenever the longest sequence gets another block.
 */
export const BLOCKS_AT_ONCE = 4;

/**
 * The number of more than two single tokens is a multiple of this, for the same reason: it would otherwise change with each
 * sequence that comes or goes. Tokens of no sequence take less time than linking does.
 */
export const TOKENS_AT_ONCE = 4;

/** A token of a step. */
interface Place {
  readonly token: number;
  readonly position: number;
  readonly slot: number;
  readonly adapter: number;
}

/** The tokens of a chunk, and behind them those that are proposed. */
export function runOf(
  { sequence, start, count }: ScheduledChunk,
  proposed: readonly number[] = [],
): TokenRun {
  const tokens = [...sequence.tokens.slice(start, start + count), ...proposed];
  return { sequence, start, tokens, isChunk: count > 1 };
}

/**
 * Puts the tokens of a step into a row. The single tokens are one group, also those that follow each other: each has a
 * row of the table of its own, and sees the keys up to its own place. So their number has no influence on how each of
 * them is computed, nor on the number of programs. The sizes of groups do not depend on each other, so that a program for
 * any sizes is found soon.
 *
 * Programs for one of something differ from those for several. So there are never fewer than two sequences with single
 * tokens, several blocks of a sequence, and three tokens of a chunk, whose scores begin behind all tokens but the last one. What
 * is missing are tokens of a block that no sequence has, `spareBlock`, and blocks that no query sees.
 */
export function layOut(
  runs: readonly TokenRun[],
  { blockSize, spareBlock }: { readonly blockSize: number; readonly spareBlock: number },
): StepLayout {
  const chunks = runs.filter(({ isChunk }) => isChunk);
  const single = runs.filter(({ isChunk }) => !isChunk);
  const spare: Place = { token: 0, position: 0, slot: spareBlock * blockSize, adapter: 0 };
  const groups = chunks.map((run) => {
    const own = placesOf(run);
    // In front, because the scores are those of the last token.
    const places = own.length < 3 ? [spare, ...own] : own;
    return groupOf(places, [run.sequence.table.blocks], spareBlock);
  });
  const scored: (TokenRun | null)[] = [...chunks];
  if (single.length > 0) {
    const places = single.flatMap(placesOf);
    const tables = single.flatMap(({ sequence, tokens }) =>
      tokens.map(() => sequence.table.blocks),
    );
    scored.push(...single.flatMap((run) => run.tokens.map(() => run)));
    const count =
      places.length <= 2 ? 2 : Math.ceil(places.length / TOKENS_AT_ONCE) * TOKENS_AT_ONCE;
    while (places.length < count) {
      places.push(spare);
      tables.push([spareBlock]);
      scored.push(null);
    }
    groups.push(groupOf(places, tables, spareBlock));
  }
  return { groups, scored };
}

function placesOf({ sequence, start, tokens }: TokenRun): Place[] {
  return tokens.map((token, at) => ({
    token,
    position: start + at,
    slot: sequence.table.slotOf(start + at),
    adapter: sequence.adapter,
  }));
}

function groupOf(
  places: readonly Place[],
  tables: readonly (readonly number[])[],
  spareBlock: number,
): QueryGroup {
  const longest = tables.reduce((most, { length }) => Math.max(most, length), 0);
  const blocks = Math.ceil(longest / BLOCKS_AT_ONCE) * BLOCKS_AT_ONCE;
  const table = new Int32Array(tables.length * blocks).fill(spareBlock);
  for (const [row, own] of tables.entries()) table.set(own, row * blocks);
  const placed = Int32Array.from([
    ...places.map(({ token }) => token),
    ...places.map(({ position }) => position),
    ...places.map(({ slot }) => slot),
    ...places.map(({ adapter }) => adapter),
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
  const placed = new Int32Array(4 * count).fill(spareBlock * blockSize, 2 * count, 3 * count);
  return { ...sizes, table: new Int32Array(sequences * blocks).fill(spareBlock), placed };
}
