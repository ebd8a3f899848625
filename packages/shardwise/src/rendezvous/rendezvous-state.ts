import { CollectiveError } from '@shardwise/core/extend';
import { z } from 'zod';
import { MAX_NODES, type GenerationEnd, type GenerationNode } from './generation.ts';

/** A host that has come, and the place that it asks for. */
export interface Arrival extends Omit<GenerationNode, 'admission' | 'isLost'> {
  readonly place?: number | undefined;
}

/** A host of a generation. */
export interface Seat extends Arrival {
  readonly admission: number;
  readonly isLost?: boolean | undefined;
}

/** What all hosts of a run know of it. It is one value of the store, changed by compare-and-set. */
export interface RendezvousState {
  readonly phase: 'gathering' | 'running' | 'over';
  /** The host that serves the store. Only this host starts and ends generations. */
  readonly leader: string;
  /** The epoch of the last generation. It is -1 before the first one. */
  readonly epoch: number;
  /** The hosts of the last generation, by place. */
  readonly nodes: readonly Seat[];
  /** The next number of an admission. */
  readonly admissions: number;
  /** The hosts that have come for the next generation, or for a free place in this one. */
  readonly waiting: readonly Arrival[];
  readonly restarts: number;
  readonly runDirectory: string;
  readonly resumeDirectory?: string | undefined;
  /** The module that makes the transport of the ranks, by the name that the leader has been given. */
  readonly transport?: string | undefined;
  /** The least number of ranks that go on without those that are lost. Absent if all start again. */
  readonly minRanks?: number | undefined;
  /** How the last generation ended. Absent while it runs. */
  readonly end?: GenerationEnd | undefined;
}

/** The greatest number of ranks of a host. */
const MAX_RANKS = 1024;

/** The greatest length of a text. */
const MAX_CHARACTERS = 4096;
const text = z.string().max(MAX_CHARACTERS);
const arrival = z.object({
  id: z.uuid(),
  name: z.string().max(255),
  address: z.string().regex(/^[\w.:%-]{1,255}$/),
  ranks: z.int().min(1).max(MAX_RANKS),
  place: z.int().min(0).max(MAX_NODES).optional(),
});

const seat = arrival.extend({ admission: z.int().nonnegative(), isLost: z.boolean().optional() });

const endSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('finished') }),
  z.object({
    kind: z.literal('failed'),
    failure: z.object({
      rank: z.int().nonnegative().optional(),
      node: text,
      reason: text,
      kind: z.enum(['mistake', 'checkpoint']).optional(),
    }),
  }),
  z.object({ kind: z.literal('joined'), nodes: z.array(text).max(MAX_NODES) }),
  z.object({ kind: z.literal('stopped'), node: text }),
]);

const stateSchema: z.ZodType<RendezvousState> = z.object({
  phase: z.enum(['gathering', 'running', 'over']),
  leader: z.uuid(),
  epoch: z.int().min(-1),
  nodes: z.array(seat).max(MAX_NODES),
  admissions: z.int().nonnegative(),
  waiting: z.array(arrival).max(MAX_NODES),
  restarts: z.int().nonnegative(),
  runDirectory: text,
  resumeDirectory: text.optional(),
  transport: text.optional(),
  minRanks: z.int().positive().optional(),
  end: endSchema.optional(),
});

/** Decodes the state. Throws CollectiveError for anything that no host of this version writes. */
export function decodeState(bytes: Uint8Array): RendezvousState {
  return decode(stateSchema, 'state of the run', bytes);
}

/** Decodes the end of a generation. Throws CollectiveError for anything that no host of this version writes. */
export function decodeEnd(bytes: Uint8Array): GenerationEnd {
  return decode(endSchema, 'end of a generation', bytes);
}

export function encodeJson(value: RendezvousState | GenerationEnd): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** Encodes the end of a generation. The reason of a failure is cut to the length that other hosts accept. */
export function encodeEnd(end: GenerationEnd): Uint8Array {
  if (end.kind !== 'failed') return encodeJson(end);
  const { failure } = end;
  const reason = failure.reason.slice(0, MAX_CHARACTERS);
  return encodeJson({ ...end, failure: { ...failure, reason } });
}

function decode<T>(schema: z.ZodType<T>, what: string, bytes: Uint8Array): T {
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new CollectiveError(
      {
        asked: `Reading the ${what} from the store`,
        found: 'it is not what a launcher of this version writes',
        todo: 'Run one version of shardwise on all hosts, and give each job its own port',
      },
      {},
      { cause },
    );
  }
}

/** The key of how a generation ended. It is set once. */
export const endKey = (epoch: number): string => `end/${epoch}`;

/** The key of the number of hosts whose ranks have all finished. */
export const finishedKey = (epoch: number): string => `finished/${epoch}`;

/** The key of the number of hosts that have learned that the run is over. */
export const LEFT_KEY = 'left';
