import { SequenceCut } from '@shardwise/strategies';
import { HEAD_WIDTH, HEADS, NEIGHBOURS, type RingRecord, type RingTask } from './ring-task.ts';

/** What a rank has and computes while it has one block of keys and values. */
interface RankMoment {
  /** The tokens whose queries the rank computes with. */
  readonly queries: readonly number[];
  /** The tokens whose keys and values the rank has. */
  readonly keys: readonly number[];
  /** The rank from which the block came. Null: its own block, or all of them at once. */
  readonly from: number | null;
  /** The pairs of a query and a key before it or with it, for all heads together. */
  readonly pairs: number;
}

/** A pass of attention: for each moment what each rank does. */
export interface RingPass {
  readonly cut: SequenceCut;
  readonly moments: readonly (readonly RankMoment[])[];
  /** Whether the blocks are read from messages that ranks received. Otherwise they follow from the cut. */
  readonly isRecorded: boolean;
}

/** Who has which block at each moment. `records` are those of all ranks, or empty before they have sent them. */
export function ringPass(task: RingTask, ranks: number, records: readonly RingRecord[]): RingPass {
  const { method, order, length } = task;
  const neighbours = neighboursOf(method, ranks);
  const cut = new SequenceCut(length, { ranks, neighbours, order });
  const isRecorded = records.length === ranks;
  const all = Array.from({ length }, (_, token) => token);
  const tokensOf = (group: number): readonly number[] =>
    cut
      .stretchesOfGroup(group)
      .flatMap(({ start, stop }) => all.slice(start, Math.min(stop, length)));
  const { groups } = cut;
  const passesOn = method !== 'allGather' && groups > 1;
  const moments = Array.from({ length: passesOn ? groups : 1 }, (_, hop) =>
    Array.from({ length: ranks }, (_, rank): RankMoment => {
      const group = Math.floor(rank / neighbours);
      const queries = tokensOf(group);
      const came = isRecorded ? blockOf(records[rank], hop) : undefined;
      const planned = passesOn ? tokensOf((group - hop + groups) % groups) : all;
      const keys = hop === 0 ? planned : (came ?? planned);
      return {
        queries,
        keys,
        from: hop === 0 ? null : (rank - neighbours + ranks) % ranks,
        pairs: (pairsOf(queries, keys) * HEADS) / neighbours,
      };
    }),
  );
  return { cut, moments, isRecorded };
}

/** The pairs of each rank in the whole pass. */
export function pairsOfRanks({ moments }: RingPass): readonly number[] {
  const [first = []] = moments;
  return first.map((_, rank) =>
    moments.reduce((sum, moment) => sum + (moment[rank]?.pairs ?? 0), 0),
  );
}

/** The largest number over the mean. */
export function balanceOf(pairs: readonly number[]): number {
  return (Math.max(...pairs) * pairs.length) / pairs.reduce((sum, each) => sum + each, 0);
}

/** The bytes that a rank gets from others, and how they follow from n ranks that have t tokens of c features each. */
interface PassBytes {
  readonly forward: number;
  readonly backward: number;
  readonly formula: string;
}

export function bytesByFormula({ method }: RingTask, { cut }: RingPass): PassBytes {
  const { ranks, neighbours } = cut.over;
  const block = cut.localLength * HEADS * HEAD_WIDTH * Float32Array.BYTES_PER_ELEMENT;
  const [ring, exchange] = [
    2 * (cut.groups - 1) * block,
    (4 * block * (neighbours - 1)) / neighbours,
  ];
  switch (method) {
    case 'allGather': {
      const gathered = 2 * (ranks - 1) * block;
      return { forward: gathered, backward: gathered, formula: '2 (n − 1) t c · 4 B in each pass' };
    }
    case 'ulysses':
      return {
        forward: exchange,
        backward: exchange,
        formula: '4 t c (n − 1) / n · 4 B in each pass',
      };
    case 'ring':
      return {
        forward: ring,
        backward: 2 * ring,
        formula: '2 (n − 1) t c · 4 B forward, and twice that backward',
      };
    case 'usp':
      return {
        forward: ring + exchange,
        backward: 2 * ring + exchange,
        formula:
          'those of ulysses with n = 2, and those of a ring with as many members as there are pairs of ranks',
      };
    default:
      return method satisfies never;
  }
}

/** The bytes that a rank received. */
export function recordedBytes({ messages }: RingRecord): Pick<PassBytes, 'forward' | 'backward'> {
  const bytesOf = (which: 'forward' | 'backward'): number =>
    messages.filter(({ pass }) => pass === which).reduce((sum, { bytes }) => sum + bytes, 0);
  return { forward: bytesOf('forward'), backward: bytesOf('backward') };
}

function neighboursOf(method: RingTask['method'], ranks: number): number {
  if (method === 'ulysses') return ranks;
  return method === 'usp' ? NEIGHBOURS : 1;
}

/** The tokens of the block that came before a moment. At each, keys come first, and then values. */
function blockOf(record: RingRecord | undefined, hop: number): readonly number[] | undefined {
  const blocks = record?.messages.flatMap(({ tokens }) => (tokens === undefined ? [] : [tokens]));
  return blocks?.[2 * (hop - 1)];
}

function pairsOf(queries: readonly number[], keys: readonly number[]): number {
  return queries.reduce(
    (sum, query) => sum + keys.reduce((seen, key) => seen + (key <= query ? 1 : 0), 0),
    0,
  );
}
